package deliver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"strings"
	"syscall"
)

// The causes by which a call's own context ends, one for each part of the call.
var (
	errConnectTimeout = errors.New("no connection in time")
	errHeaderTimeout  = errors.New("no header in time")
	errBodyTimeout    = errors.New("no whole body in time")
)

// errSentOnce is the cause by which a call ends whose connection broke when something of it had gone out: it may have been processed.
var errSentOnce = errors.New("the connection broke after the request had gone out")

// proxyError is that of an egress proxy that answered, but made no connection.
type proxyError struct{ status int }

func (e *proxyError) Error() string { return fmt.Sprintf("CONNECT was answered with %d", e.status) }

// codeOf says in one word why a transport gave up. What it does not know is CodeNetwork.
func codeOf(err error) Code {
	var (
		blocked *BlockedError
		proxied *proxyError
		dns     *net.DNSError
	)
	switch {
	case errors.As(err, &blocked):
		return CodeBlocked
	case isLocal(err):
		return CodeLocal
	case errors.As(err, &proxied), isProxyDown(err):
		return CodeProxy
	case errors.Is(err, errConnectTimeout):
		return CodeConnectTimeout
	case errors.Is(err, errHeaderTimeout):
		return CodeHeaderTimeout
	case errors.Is(err, errBodyTimeout):
		return CodeBodyTimeout
	case errors.As(err, &dns):
		return CodeDNS
	case isTLS(err):
		return CodeTLS
	case errors.Is(err, syscall.ECONNREFUSED):
		return CodeRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTDOWN):
		return CodeUnreachable
	case isTimeout(err): // the parts after the connection have causes of their own
		return CodeConnectTimeout
	case isProtocol(err):
		return CodeProtocol
	case errors.Is(err, errSentOnce), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED),
		strings.Contains(err.Error(), "server closed"):
		return CodeReset
	}
	return CodeNetwork
}

// isLocal reports whether this machine is the reason, and the destination is not.
func isLocal(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// isProxyDown reports whether no connection to the proxy itself came about.
func isProxyDown(err error) bool {
	for err != nil {
		var op *net.OpError
		if !errors.As(err, &op) {
			return false
		}
		if op.Op == "proxyconnect" {
			return true
		}
		err = op.Err
	}
	return false
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

func isTLS(err error) bool {
	var (
		record      tls.RecordHeaderError
		alert       tls.AlertError
		certificate *tls.CertificateVerificationError
		handshake   *handshakeError
	)
	return errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &certificate) ||
		errors.As(err, &handshake) && !isTimeout(err)
}

// isProtocol goes by texts where net/http has no types.
func isProtocol(err error) bool {
	var protocol textproto.ProtocolError
	if errors.As(err, &protocol) {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "malformed") || strings.Contains(text, "response headers exceeded") || strings.Contains(text, "HTTP status code") ||
		strings.Contains(text, "bad Content-Length") || strings.Contains(text, "transfer encoding") || strings.Contains(text, "header")
}
