package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

// archive is a file of jobs, each a line of JSON.
type archive struct{ *os.File }

// openArchive opens a file to add jobs to. If something cut off its last line, that line is ended: its job was not deleted.
func openArchive(name string) (archive, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600) // parameters may be confidential
	if err != nil {
		return archive{}, &exit{exitUsage, fmt.Errorf("the archive: %w", err)}
	}
	last := []byte{'\n'}
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil && size > 0 {
		_, err = file.ReadAt(last, size-1)
	}
	if err == nil && last[0] != '\n' {
		_, err = file.WriteString("\n")
	}
	if err == nil && size == 0 {
		err = syncFolder(filepath.Dir(name))
	}
	if err != nil {
		return archive{}, errors.Join(fmt.Errorf("the archive: %w", err), file.Close())
	}
	return archive{file}, nil
}

// syncFolder returns when the disk has the name of a new file. Windows does not sync folders.
func syncFolder(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	folder, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// add returns when the disk has the jobs.
func (f archive) add(_ context.Context, jobs []queue_job.Archived) error {
	var text bytes.Buffer
	lines := encoder(&text)
	for i := range jobs {
		if err := lines.Encode(&jobs[i]); err != nil {
			return err
		}
	}
	if _, err := text.WriteTo(f); err != nil {
		return err
	}
	return f.Sync()
}

func (a *app) keepRestore() *cobra.Command {
	return &cobra.Command{
		Use:   "restore <file>",
		Short: "Put jobs back that were archived, with their ids and their runs",
		Long: `Put jobs back that keep run --archive has written to a file, with their ids and their runs. A job whose id is in the table stays as it
is there, so the command may be repeated. The file is read from its end: of several lines with one id, the last is restored. What comes
from a pipe is first copied to a temporary file, which only you may read. Restored jobs do not run; pqueue job retry runs one again.
They are as old as they were: if they do not run again within a day or so, runners with WithRetention delete them.`,
		Example: "  pqueue keep restore jobs-2026-11.jsonl\n  grep '\"Key\":\"order-4711\"' jobs-2026-11.jsonl | pqueue keep restore -",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, done, err := a.openToRestore(args[0])
			if err != nil {
				return err
			}
			defer done()
			return a.with(cmd.Context(), func(db *database) error { return a.restore(cmd.Context(), db, file) })
		},
	}
}

// openToRestore opens a file that can be read from its end. What comes from a pipe is copied to such a file first.
func (a *app) openToRestore(name string) (file *os.File, done func(), err error) {
	from := a.In
	if name != "-" {
		if file, err = os.Open(name); err != nil {
			return nil, nil, &exit{exitUsage, fmt.Errorf("the archive: %w", err)}
		}
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return file, func() { file.Close() }, nil
		}
		defer file.Close()
		from = file
	}
	copied, err := os.CreateTemp("", "pqueue-restore-*") // its owner alone may read it
	if err != nil {
		return nil, nil, fmt.Errorf("copy the archive: %w", err)
	}
	done = func() { copied.Close() }
	if err := os.Remove(copied.Name()); err != nil { // on Windows, an open file stays
		done = func() { copied.Close(); os.Remove(copied.Name()) }
	}
	if _, err := io.Copy(copied, from); err != nil {
		done()
		return nil, nil, fmt.Errorf("copy the archive: %w", err)
	}
	return copied, done, nil
}

// restoration puts the jobs of an archive back, and counts what becomes of its lines.
type restoration struct {
	put                 func([]queue_job.Archived) (restored int, err error)
	some                []queue_job.Archived // to be put back together
	jobs, there, broken int
	lastBroken          string // how it begins
}

const restoredTogether = 100

// add notes a line of the archive, and sends jobs when there are enough.
func (r *restoration) add(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	var job queue_job.Archived
	if json.Unmarshal(line, &job) != nil || job.Id == 0 {
		if r.broken++; r.broken == 1 {
			r.lastBroken = shortened(string(line[:min(len(line), 400)]), 60)
		}
		return nil
	}
	if r.some = append(r.some, job); len(r.some) < restoredTogether {
		return nil
	}
	return r.send()
}

func (r *restoration) send() error {
	if len(r.some) == 0 {
		return nil
	}
	n, err := r.put(r.some)
	if r.jobs += n; err == nil {
		r.there += len(r.some) - n
	}
	r.some = r.some[:0]
	return err
}

func (a *app) restore(ctx context.Context, db *database, file *os.File) error {
	r := restoration{put: func(some []queue_job.Archived) (n int, err error) {
		err = a.within(ctx, func(ctx context.Context) (err error) {
			n, err = db.jobs.Restore(ctx, db, some)
			return err
		})
		return n, err
	}}
	lines, err := fromTheEnd(file)
	if err != nil {
		return fmt.Errorf("the archive: %w", err)
	}
	for shown := time.Now(); lines.more(); {
		line, err := lines.next()
		if err != nil {
			return a.sayCutOff(&r, fmt.Errorf("the archive: %w", err))
		}
		if err := r.add(bytes.TrimSpace(line)); err != nil {
			return a.sayCutOff(&r, err)
		}
		if time.Since(shown) > 5*time.Second {
			a.sayf("%d …", r.jobs)
			shown = time.Now()
		}
	}
	if err := r.send(); err != nil {
		return a.sayCutOff(&r, err)
	}
	return a.sayRestored(&r)
}

func (a *app) sayCutOff(r *restoration, err error) error {
	a.sayf("restored %s, then:", words.Count(r.jobs, "job"))
	return err
}

func (a *app) sayRestored(r *restoration) error {
	a.sayf("restored %s", words.Count(r.jobs, "job"))
	if r.there > 0 {
		a.sayf("in the table already, and left as they are there: %s", words.Count(r.there, "job"))
	}
	switch {
	case r.broken > 0:
		return exitf(exitPartly,
			"%s could not be read, the last of them begins with %s: if something ended keep run while it wrote a line, the job was not deleted",
			words.Count(r.broken, "line"), oneLine(r.lastBroken))
	case r.jobs == 0:
		return exitf(exitNothing, "nothing to restore")
	}
	return nil
}

// backwards reads the lines of a file from the last to the first.
type backwards struct {
	file io.ReaderAt
	at   int64  // from here on, the file was read
	rest []byte // of what was read, the lines that are still to come
}

func fromTheEnd(file *os.File) (*backwards, error) {
	size, err := file.Seek(0, io.SeekEnd)
	return &backwards{file: file, at: size}, err
}

func (b *backwards) more() bool { return b.at > 0 || len(b.rest) > 0 }

// next is the line before the last one, without its end.
func (b *backwards) next() ([]byte, error) {
	const atATime = 256 << 10
	b.rest = bytes.TrimSuffix(b.rest, []byte{'\n'})
	for searched := len(b.rest); ; {
		if i := bytes.LastIndexByte(b.rest[:searched], '\n'); i >= 0 || b.at == 0 {
			line := b.rest[i+1:]
			b.rest = b.rest[:i+1]
			return line, nil
		}
		n := min(b.at, atATime)
		before := make([]byte, n, int(n)+len(b.rest))
		if _, err := b.file.ReadAt(before, b.at-n); err != nil {
			return nil, err
		}
		b.rest, b.at, searched = append(before, b.rest...), b.at-n, int(n)
	}
}
