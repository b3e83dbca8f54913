package faults

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/internal/mutant"
)

// mutants are the failures that the suite must see, each with the test that does. What depends on the order of
// goroutines rather than on servers and processes, the simulator sees: its mutants stand beside it. A holder
// that does not ask for trust is among those: the runs that it starts too late are no more than a freeze may cost, and only
// the simulator knows under which term each began.
var mutants = []struct {
	mutant.Mutant
	test   string
	folder string // empty: this one
}{
	{mutant.Mutant{
		Name: "a settle without the term",
		File: "internal/store/job.go",
		Old:  `o.Status, s.NowOnce(), s.ours(ids, o.Term, o.Attempt))`,
		New:  `o.Status, s.NowSecond, s.IDIn(ids)+" AND "+pending)`,
	}, "TestAHolderFrozenBetweenMarkAndSettle", ""},
	{mutant.Mutant{
		Name: "a completion without the term",
		File: "internal/store/run.go",
		Old:  `n, err := through.Settle(ctx, []uint64{id}, Final{term, attempt, end.Status})`,
		New: `n, err := conn.Exec(ctx, through,
			fmt.Sprintf("UPDATE %s SET job_status = %d, update_time = update_time + 1 WHERE id = %d", s.Tables.Jobs, end.Status, id))`,
	}, "TestTransfersHappenExactlyOnceThoughHoldersAreFrozenAndKilled", ""},
	{mutant.Mutant{
		Name: "a step whose record is not in its transaction",
		File: "queue_job/step.go",
		Old:  `RecordStepThrough(ctx, tx, step)`,
		New:  `RecordStep(ctx, step)`,
	}, "TestStepsOfJobsHappenOnceThoughHoldersAreFrozenKilledAndCutOff", ""},
	{mutant.Mutant{
		Name: "no sweep",
		File: "internal/engine/open.go",
		Old:  `l.work(d.finder.Sweep)`,
	}, "TestALateCommitIsFoundByTheNextSweep", ""},
	{mutant.Mutant{
		Name: "a mark of unknown outcome that is not read back",
		File: "internal/pipeline/doubts.go",
		Old:  `marked, errBack := m.readBack(lease, batch)`,
		New:  `marked, errBack := map[uint64]store.Marked{}, error(nil)`,
	}, "TestAConnectionCutAtEveryByteOfAMarkAndASettle", ""},
	{mutant.Mutant{
		Name: "no connection for the engine while the pool is full",
		File: "internal/conn/send.go",
		Old:  `s := via.sender().withRoom() // to write`,
		New:  `s := via.sender()`,
	}, "TestHandlersThatHoldAllConnectionsOfThePoolHoldUpNothingElse", "tests"},
	{mutant.Mutant{
		Name: "nobody tells the keys of handlers that outlive their jobs",
		File: "internal/pipeline/queue.go",
		Old:  "if t.hasSlot {\n\t\t\truns.Keys",
		New:  "if t.hasSlot && t.departed {\n\t\t\truns.Keys",
	}, "TestAKeyIsBusyUntilItsHandlerHasEndedOverDeploysAndAKill", ""},
	{mutant.Mutant{
		Name: "a job that runs again without the key that another took",
		File: "internal/store/unique.go",
		Old:  `withKeyBack = fmt.Sprintf("unique_in = CASE WHEN changes >= %d THEN job_type ELSE unique_in END", KeyTaken)`,
		New:  `withKeyBack = fmt.Sprintf("unique_in = CASE WHEN changes < %d THEN unique_in END", KeyTaken)`,
	}, "TestNoTwoPendingJobsEverHaveOneUniqueKeyThoughHoldersAreKilled", ""},
	{mutant.Mutant{
		Name: "a broken lease that its holder does not see in its looks",
		File: "internal/keeper/keeper.go",
		Old:  `sent.Sub(l.taken) < showsWithin:`,
		New:  `sent.Sub(l.taken) < showsWithin*1000:`,
	}, "TestAHolderStopsSoonAfterItsLeaseWasBroken", ""},
	{mutant.Mutant{
		Name: "shards with one term",
		File: "internal/store/term.go",
		Old:  `	if !slices.ContainsFunc(names, isOfType) {`,
		New:  `	if slices.ContainsFunc(names, isOfType) {`,
	}, "TestNoTwoShardsEverHaveOneTermAndNoneWaitsForTheOthers", ""},
	{mutant.Mutant{
		Name: "an attempt that goes out on one connection after the other",
		File: "service/internal/deliver/traces.go",
		Old:  `		t.refused = sent`,
		New:  `		sent = false`,
	}, "TestAnAttemptIsOneRequestOnTheWireWhereverItsConnectionIsCut", ""},
	{mutant.Mutant{
		Name: "nobody is buried before its leases end",
		File: "internal/keeper/burial.go",
		Old:  `u.counted < u.lasts || prompt < suspectIn`,
		New:  `u.counted < 60*u.lasts || prompt < suspectIn`,
	}, "TestADeadProcessIsReplacedWithinSecondsHoweverLongItsLeasesAre", ""},
	{mutant.Mutant{
		Name: "leases of the buried that are freed with no rest",
		File: "internal/keeper/burial.go",
		Old:  `if slices.ContainsFunc(seen, func(other store.Seen) bool { return other.Name == rest && other.Owner == row.Owner }) {`,
		New:  `if rest != "" {`,
	}, "TestAProcessThatIsFrozenForLessThanItsLeasesFinishesWhatItRuns", ""},
	{mutant.Mutant{
		Name: "a burial by those whose own beats are not answered",
		File: "internal/keeper/life.go",
		Old:  `if f.over.Load() || chain == 0 || at-p.latest.Load() > int64(beatEvery+promptly) {`,
		New:  `if f.over.Load() {`,
	}, "TestADatabaseThatStandsStillForSecondsCostsNoRun", ""},
}

func TestEveryKnownFailureFindsItsLineAndCompiles(t *testing.T) {
	all := make([]mutant.Mutant, len(mutants))
	for i, m := range mutants {
		all[i] = m.Mutant
	}
	if err := mutant.Check("../..", all...); err != nil {
		t.Error(err)
	}
}

func TestTheSuiteTurnsRedForEachKnownFailure(t *testing.T) {
	if testing.Short() {
		t.Skip("left out: it runs parts of the suite again, on libraries with a failure each; run make faults")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			test, err := m.GoTest(root, cmp.Or(m.folder, "tests/faults"), t.TempDir(), "-short", "-failfast", "-parallel", "8", "-run", "^"+m.test, ".")
			if err != nil {
				t.Fatal(err)
			}
			test.Env = append(os.Environ(), resultsVariable+"=", "GOFLAGS=-overlay="+overlayOf(test)) // the test may build pqueue
			said, err := test.CombinedOutput()
			if err == nil {
				t.Errorf("%s is green on a library with %s", m.test, m.Name)
			} else if !strings.Contains(string(said), "--- FAIL: "+m.test) {
				t.Errorf("%s did not run: %s", m.test, said)
			}
		})
	}
}

// overlayOf is the file that puts the failure into the library.
func overlayOf(test *exec.Cmd) string { return test.Args[slices.Index(test.Args, "-overlay")+1] }
