package faults

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
)

// postgresWire is the protocol of PostgreSQL. A client sends messages, of which most begin with a byte that says what they
// are, then four for their length without that byte. Those that prepare or execute a statement come together, and are
// answered when a Sync follows: all of them are one packet here.
var postgresWire = wire{read: readMessages, check: refuseTLS, kindOf: kindOfMessages, textOf: textOfMessages}

// refuse is answer for PostgreSQL. The server knows nothing of it, and the client believes that no transaction is open.
func refuse(code, message string) fate {
	fields := "SERROR\x00C" + code + "\x00M" + message + "\x00\x00"
	packet := binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(fields)))
	return fate{errorPacket: append(append(packet, fields...), 'Z', 0, 0, 0, 5, 'I')}
}

// partOfMore are the messages that another one follows before the client waits: Parse, Bind, Describe, Execute, Close.
const partOfMore = "PBDEC"

func readMessages(in *bufio.Reader, buffer []byte, first bool) ([]byte, error) {
	buffer = buffer[:0]
	for {
		kindBytes := 1
		if first { // who the client is; it has no byte that says so
			kindBytes = 0
		}
		header, err := in.Peek(kindBytes + 4)
		if err != nil {
			return buffer, err
		}
		length := kindBytes + int(binary.BigEndian.Uint32(header[kindBytes:]))
		begin := len(buffer)
		if begin+length > packetBytesMax {
			return buffer, errPacketTooLong
		}
		buffer = slices.Grow(buffer, length)[:begin+length]
		if _, err = io.ReadFull(in, buffer[begin:]); errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		if err != nil || first || !strings.ContainsRune(partOfMore, rune(buffer[begin])) {
			return buffer, err
		}
	}
}

func refuseTLS(packet []byte, first bool) error {
	const tls, gssapi = 80877103, 80877104 // in the place of a version
	if !first || len(packet) < 8 {
		return nil
	}
	if version := binary.BigEndian.Uint32(packet[4:]); version == tls || version == gssapi {
		return errors.New("a client that wants TLS")
	}
	return nil
}

// kindOfMessages tells a text from what is prepared or executed in parts.
func kindOfMessages(packet []byte, first bool) commandKind {
	switch {
	case first, packet[0] == 'p': // a password
		return 0
	case packet[0] == 'X':
		return comQuit
	case packet[0] == 'Q':
		return comQuery
	default:
		return comStmtExecute
	}
}

// textOfMessages notes what is prepared under which name.
func textOfMessages(packet []byte, statements map[string]string) (text string) {
	for len(packet) > 0 {
		kind, length := packet[0], 1+int(binary.BigEndian.Uint32(packet[1:]))
		first, rest := word(packet[5:length])
		second, _ := word(rest)
		switch kind {
		case 'Q':
			text = first
		case 'P':
			statements[first], text = second, second
		case 'B':
			text = statements[second]
		}
		packet = packet[length:]
	}
	return text
}

// word cuts off what ends with a zero.
func word(body []byte) (text string, rest []byte) {
	before, rest, _ := bytes.Cut(body, []byte{0})
	return string(before), rest
}
