// Package aesgcm has a [queue_job.Codec] that encrypts what is stored of jobs, by AES in Galois/Counter Mode:
//
//	codec, err := aesgcm.New(aesgcm.Key{ID: "2026-11", Secret: secret})
//	jobs, err := queue_job.Open(db, queue_job.WithCodec(codec))
//	runner, err := persistent_queue.New(configs, log, persistent_queue.WithCodec(codec))
//
// # What it protects
//
// Whoever reads the tables, a backup, a replica or an archive does not read parameters, results, progress and the values of steps. How long
// these are stays visible, and so do the type, the key, the group, the metadata, the names of steps and the errors of handlers. Whoever writes
// to the tables cannot make up a value, change one, or move one to a job of another type or another business key: it is not decrypted, and the
// job has an error. A result, a progress or a step cannot be moved to another job at all. Parameters are encrypted before the job has its id. So
// an attacker can swap the parameters of two jobs that have the same type and the same key, or that have the same type and no key; an old job
// can be inserted once more. And unless [Codec.RefusePlain] was called, whoever writes to the tables can insert a job in plain text.
//
// # Keys
//
// A secret has 16, 24 or 32 random bytes (openssl rand 32), from where your other secrets are. To change it while jobs wait: first give
// all processes the new key behind the old one, as one that decrypts; then put it first. Take the old one away when no job has it any more:
// [queue_job.EncodingOf] says which one a job has. Each value has a random nonce of 96 bits, so a key is good for 2^32 values, which are seven weeks
// at a thousand a second: change it before.
package aesgcm

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/create-info/persistent-queue/queue_job"
)

// Key is a secret with its name.
type Key struct {
	// ID is stored beside what the key has encrypted, in plain text: 1 to 32 letters and digits of ASCII, dots, dashes and underscores. Give no two
	// secrets one ID, ever.
	ID string
	// Secret has 16, 24 or 32 bytes, for AES-128, AES-192 or AES-256.
	Secret []byte
}

// What the ID of a key may have: the library stores no other.
const (
	idLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	idMost    = 32
)

// Codec encrypts and decrypts. [New] makes one. It is for any number of goroutines.
type Codec struct {
	newest       string
	keys         map[string]cipher.AEAD
	refusesPlain bool
}

var _ queue_job.Codec = (*Codec)(nil)

// New returns a codec that encrypts with the first key, and decrypts with the key that a value was encrypted with.
func New(newest Key, others ...Key) (*Codec, error) {
	c := &Codec{newest: newest.ID, keys: map[string]cipher.AEAD{}}
	for _, key := range append([]Key{newest}, others...) {
		if key.ID == "" {
			return nil, errors.New("aesgcm: a key has no ID; give each one of its own")
		}
		if len(key.ID) > idMost || strings.Trim(key.ID, idLetters) != "" {
			return nil, fmt.Errorf("aesgcm: a key has the ID %q; use 1 to %d letters and digits of ASCII, dots, dashes and underscores", key.ID, idMost)
		}
		if c.keys[key.ID] != nil {
			return nil, fmt.Errorf("aesgcm: two keys have the ID %q; give each its own", key.ID)
		}
		block, err := aes.NewCipher(key.Secret)
		if err != nil {
			return nil, fmt.Errorf("aesgcm: the secret of key %q has %d bytes; use 16, 24 or 32", key.ID, len(key.Secret))
		}
		if c.keys[key.ID], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("aesgcm: key %q: %w", key.ID, err)
		}
	}
	return c, nil
}

// RefusePlain returns a codec that refuses plain text. Jobs from before the codec have plain text, and so have jobs that other programs insert.
func (c *Codec) RefusePlain() *Codec {
	refusing := *c
	refusing.refusesPlain = true
	return &refusing
}

// RefusesPlain reports whether values that are not encrypted are refused.
func (c *Codec) RefusesPlain() bool { return c.refusesPlain }

// Encode encrypts a value with the newest key.
func (c *Codec) Encode(plain []byte, of queue_job.CodecValue) (key string, encoded []byte, err error) {
	with := c.keys[c.newest]
	return c.newest, with.Seal(make([]byte, 0, len(plain)+with.Overhead()), nil, plain, place(of)), nil
}

var (
	errNoKey   = errors.New("there is no key with this ID here")
	errChanged = errors.New("the value was changed or moved, or the secret of the key is another one")
)

// Decode decrypts a value with the key that has the ID.
func (c *Codec) Decode(key string, encoded []byte, of queue_job.CodecValue) (plain []byte, err error) {
	with := c.keys[key]
	if with == nil {
		return nil, errNoKey
	}
	if plain, err = with.Open(nil, nil, encoded, place(of)); err != nil {
		return nil, errChanged
	}
	return plain, nil
}

// place is what a value is bound to. No two have the same: the column ends with the zero, and what follows it has a fixed length up to the key.
func place(of queue_job.CodecValue) []byte {
	text := make([]byte, 0, len(of.Column)+1+4+8+len(of.Key))
	text = append(append(text, of.Column...), 0)
	text = binary.BigEndian.AppendUint32(text, uint32(of.JobType))
	text = binary.BigEndian.AppendUint64(text, of.JobID)
	return append(text, of.Key...)
}
