package queue_job

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/store"
)

// metaMax is how many characters the column meta holds.
const metaMax = 1024

// reservedMeta is what stands among the metadata of a job, under names that are the library's.
type reservedMeta struct {
	expires time.Time // zero: it has no end
	tags    []string
	node    string // of a flow; empty: the job is of none
}

// encodeMeta returns what the column meta has of a job; empty: NULL.
func encodeMeta(meta map[string]string, reserved reservedMeta) (string, error) {
	if len(meta) == 0 && reserved.none() { // nearly every job
		return "", nil
	}
	for key, value := range meta {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return "", fmt.Errorf("metadata %q: %q is not UTF-8", key, value)
		}
	}
	for _, name := range store.ReservedMeta {
		if _, there := meta[name]; there {
			return "", fmt.Errorf("metadata %q: that name is the library's; use another one, or the field or the option for it", name)
		}
	}
	encoded, err := encodeJSON(reserved.beside(meta))
	if err != nil {
		return "", fmt.Errorf("metadata as JSON: %w", err)
	}
	if n := utf8.RuneCount(encoded); n > metaMax {
		return "", fmt.Errorf("%w: metadata of %d characters as JSON, the column holds %d; pass what is large in the parameters",
			ErrTextTooLong, n, metaMax)
	}
	return string(encoded), nil
}

// beside returns metadata together with what is reserved.
func (r reservedMeta) beside(meta map[string]string) map[string]string {
	if r.none() {
		return meta
	}
	meta = ownMeta(meta)
	if !r.expires.IsZero() {
		meta[store.MetaExpires] = r.expires.UTC().Format(store.ExpiresLayout)
	}
	if len(r.tags) > 0 {
		meta[store.MetaTags] = strings.Join(r.tags, ",")
	}
	if r.node != "" {
		meta[store.MetaFlow] = r.node
	}
	return meta
}

func (r reservedMeta) none() bool { return r.expires.IsZero() && len(r.tags) == 0 && r.node == "" }

// checkTags refuses tags that could not be told from each other, or that nobody could write.
func checkTags(tags []string) error {
	for _, tag := range tags {
		switch {
		case tag == "" || strings.TrimSpace(tag) != tag || strings.ContainsRune(tag, ','):
			return fmt.Errorf("tag %q; use a text without commas, and without white space at its ends", tag)
		case !utf8.ValidString(tag):
			return fmt.Errorf("tag %q is not UTF-8", tag)
		}
	}
	return nil
}

// ownMeta is a copy, since copies of a job share their map.
func ownMeta(meta map[string]string) map[string]string {
	own := make(map[string]string, len(meta)+1)
	maps.Copy(own, meta)
	return own
}

// end is the end in time of a job that is added in a unix second; zero: none.
func (j *AddModelJob) end(now int64) time.Time {
	if j.ExpiresAfter > 0 {
		return time.Unix(now+1, 0).Add(j.ExpiresAfter)
	}
	return j.Expires
}

// lastYearOfExpires is the last one that the text of an end can have.
const lastYearOfExpires = 9999

// checkEnd refuses an end before which the job cannot start.
func checkEnd(job *AddModelJob) error {
	switch {
	case job.ExpiresAfter < 0 || job.ExpiresAfter > waitTimeMax:
		return fmt.Errorf("ExpiresAfter of %v; use 0 to %v (ten years)", job.ExpiresAfter, waitTimeMax)
	case job.ExpiresAfter > 0 && !job.Expires.IsZero():
		return errors.New("both Expires and ExpiresAfter are set; use one of them")
	case job.ExpiresAfter > 0 && job.ExpiresAfter <= job.Delay:
		return fmt.Errorf("the job would have expired (after %v) when it falls due (after %v); let it expire later", job.ExpiresAfter, job.Delay)
	case job.Expires.IsZero():
		return nil
	case job.Expires.Year() > lastYearOfExpires || job.Expires.Unix() <= 0:
		return fmt.Errorf("it expires at %v; use a time after 1970 and before the year 10000, or none for a job without an end", job.Expires)
	case job.StartTime > 0 && !job.Expires.After(time.Unix(int64(job.StartTime), 0)):
		return fmt.Errorf("the job would have expired (%s) when it falls due (%s); let it expire later",
			job.Expires.UTC().Format(time.RFC3339), time.Unix(int64(job.StartTime), 0).UTC().Format(time.RFC3339))
	}
	return nil
}

// Tags are the tags that the job was added with, see [AddModelJob.Tags].
func (j *Job) Tags() []string { return j.extra.Tags() }

// Expires is the end of the job in time, see [AddModelJob.Expires]; zero: it has none. A run may go on after it.
func (j *Job) Expires() time.Time {
	if j.extra == nil {
		return time.Time{}
	}
	return endOf(j.extra)
}

func endOf(extra *store.Extra) time.Time {
	if extra == nil || extra.Expires == 0 {
		return time.Time{}
	}
	if extra.Expires >= moment(math.MaxInt64).UnixMilli() {
		return moment(math.MaxInt64)
	}
	return time.UnixMilli(extra.Expires)
}
