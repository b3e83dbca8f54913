package queue_job

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
)

// reversing is a codec that anybody can read.
type reversing struct{ key string }

func (r reversing) Encode(plain []byte, of CodecValue) (string, []byte, error) {
	return r.key, turned(plain), nil
}
func (r reversing) Decode(key string, encoded []byte, of CodecValue) ([]byte, error) {
	if key != r.key {
		return nil, errors.New("no such key")
	}
	return turned(encoded), nil
}

func turned(text []byte) []byte {
	back := make([]byte, len(text))
	for i, b := range text {
		back[len(text)-1-i] = b
	}
	return back
}

func TestAnEncodedValueIsJSONThatSaysItsKeyAndItsLength(t *testing.T) {
	text, err := encode(map[string]int{"n": 1}, reversing{"a-1"}, CodecValue{Column: ColumnParams})
	if err != nil || !strings.HasPrefix(text, `"pq:codec:a-1:`) || !strings.HasSuffix(text, `"`) {
		t.Fatal(text, err)
	}
	if e, encoded := EncodingOf(text); !encoded || e != (Encoding{"a-1", 7}) || e.String() != `encrypted, 7 bytes, key "a-1"` {
		t.Errorf("%v %v", e, encoded)
	}
	if plain, err := unseal(reversing{"a-1"}, text, CodecValue{}); err != nil || plain != `{"n":1}` {
		t.Errorf("%q %v", plain, err)
	}
	for _, plain := range []string{"", "{}", `"text"`, "pq", `"`, "see long_params"} {
		if _, encoded := EncodingOf(plain); encoded {
			t.Errorf("%q is said to be encoded", plain)
		}
	}
	for _, key := range []string{"", "a:b", `a"`, "ä", strings.Repeat("k", 33)} {
		if _, err := encode(1, reversing{key}, CodecValue{}); err == nil {
			t.Errorf("the key %q was taken", key)
		}
	}
	if _, err := encode(JSON(text), reversing{"a-1"}, CodecValue{}); !errors.Is(err, errEncodedTwice) {
		t.Errorf("encoded twice: %v", err)
	}
}

func TestParametersAreAsLongAsTheyAreStored(t *testing.T) {
	fits := strings.Repeat("x", (ParamsMax-len(`"pq:codec:k:"`))/4*3-2)
	if text, err := encode(fits, reversing{"k"}, CodecValue{Column: ColumnParams}); err != nil || len(text) > ParamsMax {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	_, err := encode(fits+"four", reversing{"k"}, CodecValue{Column: ColumnParams})
	if !errors.Is(err, ErrParamsTooLong) || !strings.Contains(err.Error(), "as the codec has encoded them") {
		t.Error(err)
	}
	if _, err := sealColumn(reversing{"k"}, strings.Repeat("x", 200), CodecValue{Column: ColumnProgress}, progressMax); !errors.Is(err, ErrTextTooLong) {
		t.Error(err)
	}
}

// Of a batch, the handler gets those that can be decoded, in whatever order it likes, and each job ends as it should.
func TestOfABatchOnlyWhatCanBeDecodedComesToTheHandler(t *testing.T) {
	codec := reversing{"k"}
	jobOf := func(id uint64, key string) *Job {
		text, err := encode(fmt.Sprint(id), reversing{key}, CodecValue{Column: ColumnParams})
		if err != nil {
			t.Fatal(err)
		}
		return &Job{Id: id, JobParams: text, by: &hidden.Runner{Codec: codec}}
	}
	for name, c := range map[string]struct {
		keys    string
		returns error
		want    []string // of the error of each job
	}{
		"all":        {"kkk", BatchErrors{nil, errors.New("own"), nil}, []string{"", "own", ""}},
		"none":       {"xx", nil, []string{"no such key", "no such key"}},
		"some, well": {"kxk", nil, []string{"", "no such key", ""}},
		"some, each": {"xkk", BatchErrors{nil, errors.New("own")}, []string{"no such key", "", "own"}},
		"some, ill":  {"kxk", errors.New("all"), []string{"all", "no such key", "all"}},
		"miscounted": {"kxk", BatchErrors{nil}, []string{"1 errors for 2 jobs", "no such key", "1 errors for 2 jobs"}},
	} {
		t.Run(name, func(t *testing.T) {
			var jobs []*Job
			for i, key := range c.keys {
				jobs = append(jobs, jobOf(uint64(i), string(key)))
			}
			stored := jobs[0].JobParams
			err := decodingBatch(codec)(func(_ context.Context, jobs []*Job) error {
				for _, job := range jobs {
					if want := fmt.Sprintf("%q", fmt.Sprint(job.Id)); job.JobParams != want {
						t.Errorf("job %d has %s", job.Id, job.JobParams)
					}
				}
				return c.returns
			})(t.Context(), jobs)
			var each BatchErrors
			if !errors.As(err, &each) || len(each) != len(c.want) {
				t.Fatal(err)
			}
			for i, want := range c.want {
				if text := fmt.Sprint(each[i]); want == "" && each[i] != nil || !strings.Contains(text, want) {
					t.Errorf("job %d: %v", i, each[i])
				}
			}
			if jobs[0].JobParams != stored {
				t.Error("those who hear of the job after its handler read its parameters")
			}
		})
	}
}

func TestJobsThatCannotBeDecodedAreListedAsTheyAreStored(t *testing.T) {
	stored, err := encode("secret", reversing{"gone"}, CodecValue{Column: ColumnParams})
	if err != nil {
		t.Fatal(err)
	}
	row := &record.Listed{Result: "plain"}
	row.Params = stored
	for _, jobs := range []*Jobs{{}, {codec: reversing{"k"}}} {
		info, text := jobs.reveal(infoOf(row)), ""
		if err := info.Decode(&text); !errors.Is(err, ErrNotDecoded) || !strings.Contains(err.Error(), `"gone"`) || text != "" {
			t.Errorf("%q, %v", text, err)
		}
		if info.JobParams != stored || info.Result != "plain" || (info.CodecError() != nil) != (jobs.codec != nil) {
			t.Errorf("%+v", info)
		}
	}
}

func TestWithoutACodecEncodingTakesNoMemoryOfItsOwn(t *testing.T) {
	job := &AddModelJob{JobType: 1, JobParams: JSON("{}")}
	plain := allocations(func() { _, _ = marshal(job.JobParams) })
	if now := allocations(func() { _, _ = newRow(job, 1, nil) }); now > plain+0.5 {
		t.Errorf("%.2f allocations, and the JSON takes %.2f", now, plain)
	}
}

// allocations is how many a call makes on average. The race detector has a sync.Pool forget things at random, so it is no whole number.
func allocations(do func()) float64 {
	const calls = 5000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		do()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / calls
}
