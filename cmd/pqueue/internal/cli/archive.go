package cli

import (
	"bufio"
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
is there, so the command may be repeated. Of several lines with one id, the first is restored. Restored jobs do not run; pqueue job
retry makes one of them run again. They are as old as they were: if they do not run again within a day or so, runners with
WithRetention delete them.`,
		Example: "  pqueue keep restore jobs-2026-11.jsonl\n  grep '\"Key\":\"order-4711\"' jobs-2026-11.jsonl | pqueue keep restore -",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from := a.In
			if args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return &exit{exitUsage, fmt.Errorf("the archive: %w", err)}
				}
				defer file.Close()
				from = file
			}
			return a.with(cmd.Context(), func(db *database) error { return a.restore(cmd.Context(), db, from) })
		},
	}
}

// restored counts what became of the lines of an archive.
type restored struct {
	jobs, there, broken int
	firstBroken         int // its line, from 1
}

func (a *app) restore(ctx context.Context, db *database, from io.Reader) error {
	const together = 100
	var sum restored
	var some []queue_job.Archived
	put := func() error {
		var n int
		err := a.within(ctx, func(ctx context.Context) (err error) {
			n, err = db.jobs.Restore(ctx, db, some)
			return err
		})
		if sum.jobs += n; err == nil {
			sum.there += len(some) - n
		}
		some = some[:0]
		return err
	}
	lines, shown := bufio.NewReader(from), time.Now()
	for line := 1; ; line++ {
		text, end := lines.ReadBytes('\n')
		if text = bytes.TrimSpace(text); len(text) > 0 {
			var job queue_job.Archived
			if json.Unmarshal(text, &job) != nil || job.Id == 0 {
				if sum.broken++; sum.broken == 1 {
					sum.firstBroken = line
				}
			} else {
				some = append(some, job)
			}
		}
		if len(some) == together || end != nil && len(some) > 0 {
			if err := put(); err != nil {
				a.sayf("restored %s, then:", plural(sum.jobs, "job"))
				return err
			}
		}
		switch {
		case errors.Is(end, io.EOF):
			return a.sayRestored(&sum)
		case end != nil:
			return fmt.Errorf("the archive: %w", end)
		case time.Since(shown) > 5*time.Second:
			a.sayf("%d …", sum.jobs)
			shown = time.Now()
		}
	}
}

func (a *app) sayRestored(sum *restored) error {
	a.sayf("restored %s", plural(sum.jobs, "job"))
	if sum.there > 0 {
		a.sayf("in the table already, and left as they are there: %s", plural(sum.there, "job"))
	}
	switch {
	case sum.broken > 0:
		return exitf(exitPartly, "%s could not be read, the first of them line %d: if something ended keep run while it wrote a line, the job was not deleted",
			plural(sum.broken, "line"), sum.firstBroken)
	case sum.jobs == 0:
		return exitf(exitNothing, "nothing to restore")
	}
	return nil
}
