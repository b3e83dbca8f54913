package recipes

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/create-info/persistent-queue/aesgcm"
	"github.com/create-info/persistent-queue/queue_job"
)

// CodecOf makes a codec of the application's secret, such as JOB_KEYS="2026-11:BASE64 2026-05:BASE64": the first key encrypts, and all decrypt.
func CodecOf(secret string) (*aesgcm.Codec, error) {
	var keys []aesgcm.Key
	for _, one := range strings.Fields(secret) {
		id, text, _ := strings.Cut(one, ":")
		bytes, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", id, err)
		}
		keys = append(keys, aesgcm.Key{ID: id, Secret: bytes})
	}
	if len(keys) == 0 {
		return nil, errors.New("there is no key")
	}
	return aesgcm.New(keys[0], keys[1:]...)
}

// KeysInUse counts the jobs of each key, and those in plain text under "": a key that none has may be taken away. It needs no key.
func KeysInUse(ctx context.Context, db queue_job.DB, ex queue_job.Executor) (map[string]int, error) {
	jobs, err := queue_job.Open(db)
	if err != nil {
		return nil, err
	}
	used := map[string]int{}
	for job, err := range jobs.All(ctx, ex, queue_job.Filter{}) {
		if err != nil {
			return nil, err
		}
		for _, text := range []string{job.JobParams, job.Result, job.Progress} {
			if stored, encoded := queue_job.EncodingOf(text); encoded || text != "" {
				used[stored.Key]++
			}
		}
	}
	return used, nil
}
