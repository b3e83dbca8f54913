package faults

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

// mysqlWire is the protocol of MySQL.
var mysqlWire = wire{read: readPacket, check: supported, kindOf: kindOf, textOf: textOf}

// answer refuses a command in the server's place. The server knows nothing of it: where its own error would have rolled
// back the transaction, as a deadlock does, the transaction is still there.
func answer(number uint16, sqlState, message string) fate {
	packet := []byte{0, 0, 0, 1, 0xff}
	packet = binary.LittleEndian.AppendUint16(packet, number)
	packet = append(packet, "#"+sqlState+message...)
	putPayloadBytes(packet)
	return fate{errorPacket: packet}
}

// The packets' format: three bytes for the payload's length, one for its place in a conversation that starts anew, at
// 0, with each command.

const headerBytes = 4

func readPacket(in *bufio.Reader, buffer []byte, _ bool) ([]byte, error) {
	header, err := in.Peek(headerBytes)
	if err != nil {
		return buffer, err
	}
	payload := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
	if payload > packetBytesMax {
		return buffer, errPacketTooLong
	}
	buffer = slices.Grow(buffer[:0], headerBytes+payload)[:headerBytes+payload]
	if _, err = io.ReadFull(in, buffer); errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return buffer, err
}

func sequenceOf(packet []byte) byte { return packet[3] }

func putPayloadBytes(packet []byte) {
	n := len(packet) - headerBytes
	packet[0], packet[1], packet[2] = byte(n), byte(n>>8), byte(n>>16)
}

// kindOf knows what belongs to something before it by its place.
func kindOf(packet []byte, _ bool) commandKind {
	if sequenceOf(packet) > 0 {
		return 0
	}
	return commandKind(packet[headerBytes])
}

func textOf(packet []byte, statements map[string]string) string {
	switch body := packet[headerBytes+1:]; commandKind(packet[headerBytes]) {
	case comQuery, comStmtPrepare:
		return string(body)
	case comStmtExecute, comStmtSendLongData, comStmtClose, comStmtReset:
		return statements[statementOf(body)]
	}
	return ""
}

// statementOf reads the number of a prepared statement, which the commands about one begin with.
func statementOf(body []byte) string { return string(body[:min(len(body), 4)]) }

func supported(packet []byte, first bool) error {
	const (
		compress     = 1 << 5
		tls          = 1 << 11
		compressZstd = 1 << 26
	)
	if len(packet) == headerBytes && sequenceOf(packet) == 0 {
		return errors.New("a command without a byte")
	}
	if !first || len(packet) < headerBytes+4 {
		return nil
	}
	switch flags := binary.LittleEndian.Uint32(packet[headerBytes:]); {
	case flags&tls != 0:
		return errors.New("a client that wants TLS")
	case flags&(compress|compressZstd) != 0:
		return errors.New("a client that wants compression")
	}
	return nil
}
