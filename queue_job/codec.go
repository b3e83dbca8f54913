package queue_job

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Codec changes what the tables have of jobs: it encrypts it, compresses it, or both. Give the same one to [WithCodec], for those who add and
// look at jobs, and to [github.com/create-info/persistent-queue.WithCodec], for those who run them. Package
// [github.com/create-info/persistent-queue/aesgcm] has one that encrypts, with keys that can be changed while jobs wait.
//
// It gets the parameters of jobs, the values of their steps ([Step]) and what their runs have logged ([Config.KeepLog]), as JSON, and the texts
// of [Job.SetResult], [Result] and [Job.SetProgress]. The business key, the group, the names of steps, the metadata and the errors of handlers
// are stored as they are, so that people can search for them: put nothing there that must not be read.
//
// Encoded parameters are stored as a JSON text, "pq:codec:KEY:BASE64", so they are larger by a third, and [ParamsMax] counts what is stored.
// Results and progress are stored like that, too, and have to fit their columns: by package aesgcm, that leaves some 700 bytes to a result, and
// some 125 to a progress.
//
// Many goroutines call the methods at the same time. Errors are returned to whoever calls a verb, and stored with runs that failed, so they
// must not contain what is to be kept secret.
type Codec interface {
	// Encode returns a value as it is to be stored, and the id of the key with which it was encoded, which is stored beside it as it is: 1 to
	// 32 letters and digits of ASCII, dots, dashes and underscores.
	Encode(plain []byte, of CodecValue) (key string, encoded []byte, err error)
	// Decode returns what Encode got. It gets the id that Encode returned.
	Decode(key string, encoded []byte, of CodecValue) (plain []byte, err error)
}

// A Codec with this method says whether values that it has not encoded are refused, as an attacker might insert them. Otherwise they are taken
// as they are: so jobs that other programs insert run, and those that were there before the codec.
type plainRefuser interface{ RefusesPlain() bool }

// CodecValue says what a [Codec] encodes: where in the table the value stands. A codec that authenticates it notices a value that somebody has
// moved to another place.
type CodecValue struct {
	// Column is ColumnParams, ColumnResult, ColumnProgress, ColumnStep or ColumnLog.
	Column CodecColumn
	// JobType and Key are those of the job. Whoever changes them by hand makes its values unreadable for such a codec.
	JobType int32
	Key     string
	// JobID is 0 for parameters, which are encoded before the job has its id.
	JobID uint64
}

// CodecColumn is one of the columns with values that a [Codec] encodes.
type CodecColumn string

const (
	// ColumnParams stands for long_params, too.
	ColumnParams   CodecColumn = "params"
	ColumnResult   CodecColumn = "result"
	ColumnProgress CodecColumn = "progress"
	// ColumnStep stands for the values of steps, in a table of their own, see [Step].
	ColumnStep CodecColumn = "step"
	// ColumnLog stands for what runs have logged, see [Config.KeepLog].
	ColumnLog CodecColumn = "log"
)

// ErrNotDecoded is the cause of an error if a value cannot be decoded: there is no [Codec], the codec does not have the key, the value is not as
// it was encoded, or was not encoded at all and the codec refuses that. The error names the key.
var ErrNotDecoded = errors.New("not decoded")

// Encoding says how a value is stored.
type Encoding struct {
	// Key is the id of the key with which it was encoded.
	Key string
	// Bytes is how many bytes the codec has made of it.
	Bytes int
}

// String is for people: encrypted, 312 bytes, key "2026-11".
func (e Encoding) String() string { return fmt.Sprintf("encrypted, %d bytes, key %q", e.Bytes, e.Key) }

const (
	codecMark  = "pq:codec:"
	codecQuote = `"`
	codecKeys  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	codecKey   = 32 // characters
)

// EncodingOf tells whether a text is a value as a [Codec] has encoded it: of params, result or progress, in whatever process. Jobs that are read
// through [Jobs] without the codec have such values, and so do those of which the codec says that they cannot be decoded.
func EncodingOf(text string) (e Encoding, encoded bool) {
	key, data, encoded := partsOf(text)
	return Encoding{key, base64.RawStdEncoding.DecodedLen(len(data))}, encoded
}

func partsOf(text string) (key, data string, encoded bool) {
	text, quoted := strings.CutPrefix(text, codecQuote)
	if text, encoded = strings.CutPrefix(text, codecMark); !encoded {
		return "", "", false
	}
	if quoted {
		text = strings.TrimSuffix(text, codecQuote)
	}
	key, data, _ = strings.Cut(text, ":")
	return key, data, true
}

// isEncoded is EncodingOf for those who pay for it with each job.
func isEncoded(text string) bool {
	return strings.HasPrefix(strings.TrimPrefix(text, codecQuote), codecMark)
}

var errEncodedTwice = errors.New(`the value begins like an encoded one ("pq:codec:"); pass what it was before`)

// seal returns a value as it is stored. Empty texts stay empty.
func seal(c Codec, plain string, of CodecValue) (string, error) {
	if c == nil || plain == "" {
		return plain, nil
	}
	if isEncoded(plain) {
		return "", errEncodedTwice
	}
	key, data, err := c.Encode([]byte(plain), of)
	if err != nil {
		return "", fmt.Errorf("codec: %w", err)
	}
	if key == "" || len(key) > codecKey || strings.Trim(key, codecKeys) != "" {
		return "", fmt.Errorf("codec: the id of the key is %q; use 1 to %d letters and digits of ASCII, dots, dashes and underscores", key, codecKey)
	}
	quote := ""
	if of.Column == ColumnParams || of.Column == ColumnStep || of.Column == ColumnLog {
		quote = codecQuote
	}
	before := len(quote) + len(codecMark) + len(key) + 1
	text := make([]byte, before, before+base64.RawStdEncoding.EncodedLen(len(data))+len(quote))
	copy(text, quote+codecMark+key+":")
	text = base64.RawStdEncoding.AppendEncode(text, data)
	return string(append(text, quote...)), nil
}

// unseal returns what seal got.
func unseal(c Codec, stored string, of CodecValue) (plain string, err error) {
	key, data, encoded := partsOf(stored)
	switch refuser, ok := c.(plainRefuser); {
	case !encoded && stored != "" && ok && refuser.RefusesPlain():
		return "", fmt.Errorf("%w: the column %s was not encoded, and the codec refuses that", ErrNotDecoded, of.Column)
	case !encoded:
		return stored, nil
	case c == nil:
		return "", fmt.Errorf("%w: the column %s was encoded with the key %q, and there is no codec here; see WithCodec", ErrNotDecoded, of.Column, key)
	}
	bytes, err := base64.RawStdEncoding.DecodeString(data)
	if err == nil {
		bytes, err = c.Decode(key, bytes, of)
	}
	if err != nil {
		return "", fmt.Errorf("%w: the column %s was encoded with the key %q: %w", ErrNotDecoded, of.Column, key, err)
	}
	return string(bytes), nil
}

// sealColumn is seal for a column that holds so many characters.
func sealColumn(c Codec, text string, of CodecValue, most int) (string, error) {
	if c == nil {
		return text, nil
	}
	sealed, err := seal(c, text, of)
	if n := len(sealed); err == nil && n > most {
		err = fmt.Errorf("%w: %d characters as the codec has encoded them, the column holds %d", ErrTextTooLong, n, most)
	}
	return sealed, err
}

// codec is the codec of the Runner that has started the job; nil: it has none.
func (j *Job) codec() Codec {
	if j.by == nil {
		return nil
	}
	c, _ := j.by.Codec.(Codec)
	return c
}

func (j *Job) value(column CodecColumn) CodecValue {
	of := CodecValue{Column: column, JobType: j.JobType, Key: j.Key}
	if column != ColumnParams {
		of.JobID = j.Id
	}
	return of
}

func paramsErr(id uint64, jobType int32, err error) error {
	return fmt.Errorf("parameters of job %d of type %d: %w", id, jobType, err)
}

// withCodec returns a configuration whose jobs are encoded. Its handlers get their parameters decoded, while all others (observers, hooks, the
// log) have them as they are stored; Job.Decode decodes those as well.
func (c Config) withCodec(codec Codec) Config {
	c.codec = codec
	if c.HandleBatchFunc != nil {
		c.BatchMiddleware = append([]BatchMiddleware{decodingBatch(codec)}, c.BatchMiddleware...)
	} else {
		c.Middleware = append([]Middleware{decoding(codec)}, c.Middleware...)
	}
	return c
}

func decoding(codec Codec) Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, job *Job) error {
			stored := job.JobParams
			plain, err := unseal(codec, stored, job.value(ColumnParams))
			if err != nil {
				return paramsErr(job.Id, job.JobType, err)
			}
			job.JobParams = plain
			defer func() { job.JobParams = stored }()
			return next(ctx, job)
		}
	}
}

// decodingBatch leaves out jobs that cannot be decoded: each ends by itself with that error.
func decodingBatch(codec Codec) BatchMiddleware {
	return func(next BatchHandler) BatchHandler {
		return func(ctx context.Context, jobs []*Job) error {
			errs, stored := make(BatchErrors, len(jobs)), make([]string, len(jobs))
			decoded, at := make([]*Job, 0, len(jobs)), make([]int, 0, len(jobs))
			all := append([]*Job(nil), jobs...) // the handler may sort those it gets
			for i, job := range all {
				stored[i] = job.JobParams
				plain, err := unseal(codec, job.JobParams, job.value(ColumnParams))
				if err != nil {
					errs[i] = paramsErr(job.Id, job.JobType, err)
					continue
				}
				job.JobParams = plain
				decoded, at = append(decoded, job), append(at, i)
			}
			defer func() {
				for i, job := range all {
					job.JobParams = stored[i]
				}
			}()
			if len(decoded) == len(jobs) {
				return next(ctx, jobs)
			}
			if len(decoded) == 0 {
				return errs
			}
			err := next(ctx, decoded)
			var each BatchErrors
			if errors.As(err, &each) && len(each) != len(decoded) {
				err, each = fmt.Errorf("the handler returned %d errors for %d jobs: %w", len(each), len(decoded), err), nil
			}
			for n, i := range at {
				if errs[i] = err; each != nil {
					errs[i] = each[n]
				}
			}
			return errs
		}
	}
}

// reveal decodes a job that was read. What cannot be decoded stays as it is stored.
func (j *Jobs) reveal(info *JobInfo) *JobInfo {
	if j.codec == nil {
		return info
	}
	of := CodecValue{Column: ColumnParams, JobType: info.JobType, Key: info.Key}
	info.undecoded = decodeIn(j.codec, &info.JobParams, of)
	of.Column, of.JobID = ColumnResult, info.Id
	info.undecoded = errors.Join(info.undecoded, decodeIn(j.codec, &info.Result, of))
	of.Column = ColumnProgress
	info.undecoded = errors.Join(info.undecoded, decodeIn(j.codec, &info.Progress, of))
	return info
}

// revealed is what a waiter was told. Those who wait together may have several codecs.
func (j *Jobs) revealed(w *waiter) (*JobInfo, error) {
	if w.info == nil {
		return nil, w.err
	}
	return j.reveal(w.info), w.err
}

func decodeIn(c Codec, text *string, of CodecValue) error {
	plain, err := unseal(c, *text, of)
	if err == nil {
		*text = plain
	}
	return err
}

// CodecError says why the parameters, the result or the progress are not what they were before they were encoded; the cause is [ErrNotDecoded].
// JobParams, Result and Progress then have what is stored. Nil: the [Codec] of the [Jobs] has decoded them, or there is none.
func (i *JobInfo) CodecError() error { return i.undecoded }

// withoutValues is an error of a decoder without the values that such errors may have in their texts, since they are stored as they are.
func withoutValues(err error) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType):
		return fmt.Errorf("at byte %d, the field %q is no %v", wrongType.Offset, wrongType.Field, wrongType.Type)
	case errors.As(err, &syntax):
		return fmt.Errorf("they are no JSON at byte %d", syntax.Offset)
	}
	return fmt.Errorf("an error (%T) of which nothing else is stored, since the parameters are encoded", err)
}
