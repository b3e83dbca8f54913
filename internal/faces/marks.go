package faces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

// Mute is that an error is no news until a moment. It is counted all the same.
type Mute struct {
	Until   time.Time
	By, Why string
}

// MutedMost is for how long an error may be muted: marks are looked at for so long.
const MutedMost = record.MarksKept * time.Second

// versionMost is how many characters the name of a version may have.
const versionMost = 64

// ErrUnfit is the cause of an error if a mark cannot be set as it was asked for.
var ErrUnfit = errors.New("cannot be marked so")

// MarkDeploy notes that a version is deployed now, as an act of the actor that the context has. It takes one statement.
func MarkDeploy(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, version string) error {
	version = strings.TrimSpace(version)
	unfit := func(r rune) bool { return !unicode.IsPrint(r) }
	if n := len([]rune(version)); n == 0 || n > versionMost || strings.ContainsFunc(version, unfit) {
		return fmt.Errorf("version %q %w: a name has 1 to %d characters that can be printed", version, ErrUnfit, versionMost)
	}
	return mark(ctx, jobs, ex, record.Deployed, record.NoType, version)
}

// mutedError is what the act of a mute says.
type mutedError struct {
	Error string `json:"error"` // its id
	Text  string `json:"text"`
	Until int64  `json:"until,omitempty"` // unix seconds
}

// MuteError notes that an error of a job type is muted for so long, from now on, as an act of the actor that the context has. Its text is as the
// faces show it. It takes two statements.
func MuteError(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, jobType int32, text string, lasts time.Duration) error {
	if lasts < time.Second || lasts > MutedMost {
		return fmt.Errorf("an error %w for %v: use a time up to %d days", ErrUnfit, lasts, MutedMost/(24*time.Hour))
	}
	_, now, err := Newest(ctx, jobs, ex) // it ends by the database's clock
	if err != nil {
		return err
	}
	return mark(ctx, jobs, ex, record.Muted, jobType, mutedError{ErrorID(jobType, text), text, now.Add(lasts).Unix()})
}

// UnmuteError notes that an error is news again.
func UnmuteError(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, jobType int32, text string) error {
	return mark(ctx, jobs, ex, record.Unmuted, jobType, mutedError{Error: ErrorID(jobType, text), Text: text})
}

func mark(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, verb string, jobType int32, after any) error {
	act := record.Act{Verb: verb, JobType: &jobType}
	if act.Actor, act.Why = hidden.ActorOf(ctx); act.Actor == "" {
		return fmt.Errorf("%s: who does it is not known", verb)
	}
	text, err := json.Marshal(map[string]any{"after": after})
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	act.Detail = string(text)
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err == nil {
		_, err = st.NoteAct(ctx, &act)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

// versioned names the deploys that somebody has marked since a moment. If instances came within a minute, before or after, that is the same
// deploy.
func versioned(deploys []Deploy, marks []record.Act, from time.Time) []Deploy {
	for i := range marks {
		m := &marks[i]
		var said struct{ After string }
		at := time.Unix(m.At, 0)
		if m.Verb != record.Deployed || at.Before(from) || json.Unmarshal([]byte(m.Detail), &said) != nil || said.After == "" {
			continue
		}
		n := slices.IndexFunc(deploys, func(d Deploy) bool { return d.Version == "" && d.At.Sub(at).Abs() <= deployTogether })
		if n < 0 {
			n = len(deploys)
			deploys = append(deploys, Deploy{At: at})
		}
		deploys[n].Version, deploys[n].By = said.After, m.Actor
	}
	slices.SortStableFunc(deploys, func(a, b Deploy) int { return a.At.Compare(b.At) })
	return deploys
}

// mutesOf are the mutes that have not ended. The last mark of an error counts.
func mutesOf(marks []record.Act, now int64) map[string]*Mute {
	mutes, known := map[string]*Mute{}, map[string]bool{}
	for i := range marks { // the latest first
		m := &marks[i]
		var said struct{ After mutedError }
		if m.Verb != record.Muted && m.Verb != record.Unmuted || json.Unmarshal([]byte(m.Detail), &said) != nil || known[said.After.Error] {
			continue
		}
		known[said.After.Error] = true
		if m.Verb == record.Muted && said.After.Until > now {
			mutes[said.After.Error] = &Mute{time.Unix(said.After.Until, 0), m.Actor, m.Why}
		}
	}
	return mutes
}
