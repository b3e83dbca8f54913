package service

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/internal/mutant"
)

// mutants are failures of the service that its tests must see, each with the folder and the test that does.
var mutants = []struct {
	mutant.Mutant
	folder, test string
}{
	{mutant.Mutant{
		Name: "a request that goes out again on each idle connection",
		File: "service/internal/deliver/traces.go",
		Old:  "sent = c.written.Load() != t.written",
		New:  "sent = false",
	}, "service/internal/deliver", "TestAnAttemptIsOneRequestOnTheWire"},
	{mutant.Mutant{
		Name: "a stream of HTTP/2 that goes out again",
		File: "service/internal/deliver/traces.go",
		Old:  "sent = t.headers",
		New:  "sent = false",
	}, "service/internal/deliver", "TestAnAttemptIsOneRequestOnTheWireByHTTP2"},
	{mutant.Mutant{
		Name: "a call that may not go out a second time even if nothing of it went out",
		File: "service/internal/deliver/traces.go",
		Old:  "sent = c.written.Load() != t.written",
		New:  "sent = true",
	}, "service/internal/deliver", "TestAConnectionThatWasClosedMeanwhileCostsNoAttempt"},
	{mutant.Mutant{
		Name: "a call whose place comes back only if it ends as calls do",
		File: "service/internal/deliver/deliverer.go",
		Old:  "defer func() { result.Wait = d.leave(t, v) }()",
		New:  "defer func() {\n\t\tif result.Outcome != 0 {\n\t\t\tresult.Wait = d.leave(t, v)\n\t\t}\n\t}()",
	}, "service/internal/deliver", "TestAPlaceComesBackHoweverACallEnds"},
	{mutant.Mutant{
		Name: "the status 000 taken for no answer",
		File: "service/internal/deliver/send.go",
		Old:  "x.answered, x.status, x.header = true,",
		New:  "x.answered, x.status, x.header = answer.StatusCode != 0,",
	}, "service/internal/deliver", "TestAStatusThatIsNoneIsAnAnswerAndGivesThePlaceBack"},
	{mutant.Mutant{
		Name: "a panic whose stack is shown to whoever reads the task",
		File: "service/internal/callback/callback.go",
		Old:  "outcome = outcomeOf(&panicked,",
		New:  "panic(p)\n\t\t\t\toutcome = outcomeOf(&panicked,",
	}, "service/internal/callback", "TestAPanicIsASentenceForTheTaskAndAStackForTheLog"},
}

func TestEveryMutantFindsItsLine(t *testing.T) {
	for _, m := range mutants {
		if _, err := m.GoTest(filepath.Join("..", ".."), m.folder, t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

func TestTheTestsTurnRedForEachMutant(t *testing.T) {
	if testing.Short() {
		t.Skip("left out: it compiles parts of the service again, with a failure each; make test-all runs it")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			test, err := m.GoTest(root, m.folder, t.TempDir(), "-vet=off", "-run", "^"+m.test+"$", ".")
			if err != nil {
				t.Fatal(err)
			}
			said, err := test.CombinedOutput()
			if text := string(said); err == nil {
				t.Errorf("%s is green with %s", m.test, m.Name)
			} else if !strings.Contains(text, "--- FAIL: "+m.test) && !strings.Contains(text, "panic:") {
				t.Errorf("%s did not run: %s", m.test, text)
			}
		})
	}
}
