package service

import (
	"testing"

	"github.com/create-info/persistent-queue/internal/mutant"
)

const root = "../.."

// mutants are failures of the service that its tests must see, each with the folder and the test that does.
var mutants = []mutant.Mutant{
	{
		Name: "a request that goes out again on each idle connection",
		File: "service/internal/deliver/traces.go",
		Old:  "sent = c.written.Load() != t.written",
		New:  "sent = false",

		Folder: "service/internal/deliver", Test: "TestAnAttemptIsOneRequestOnTheWire",
	},
	{
		Name: "a stream of HTTP/2 that goes out again",
		File: "service/internal/deliver/traces.go",
		Old:  "sent = t.headers",
		New:  "sent = false",

		Folder: "service/internal/deliver", Test: "TestAnAttemptIsOneRequestOnTheWireByHTTP2",
	},
	{
		Name: "a call that may not go out a second time even if nothing of it went out",
		File: "service/internal/deliver/traces.go",
		Old:  "sent = c.written.Load() != t.written",
		New:  "sent = true",

		Folder: "service/internal/deliver", Test: "TestAConnectionThatWasClosedMeanwhileCostsNoAttempt",
	},
	{
		Name: "a call whose place comes back only if it ends as calls do",
		File: "service/internal/deliver/deliverer.go",
		Old:  "defer func() { result.Wait = d.leave(t, v) }()",
		New:  "defer func() {\n\t\tif result.Outcome != 0 {\n\t\t\tresult.Wait = d.leave(t, v)\n\t\t}\n\t}()",

		Folder: "service/internal/deliver", Test: "TestAPlaceComesBackHoweverACallEnds",
	},
	{
		Name: "the status 000 taken for no answer",
		File: "service/internal/deliver/send.go",
		Old:  "x.answered, x.status, x.header = true,",
		New:  "x.answered, x.status, x.header = answer.StatusCode != 0,",

		Folder: "service/internal/deliver", Test: "TestAStatusThatIsNoneIsAnAnswerAndGivesThePlaceBack",
	},
	{
		Name: "a panic whose stack is shown to whoever reads the task",
		File: "service/internal/callback/callback.go",
		Old:  "outcome = outcomeOf(&panicked,",
		New:  "panic(p)\n\t\t\t\toutcome = outcomeOf(&panicked,",

		Folder: "service/internal/callback", Test: "TestAPanicIsASentenceForTheTaskAndAStackForTheLog",
	},
}

func TestEveryMutantFindsItsLineAndCompiles(t *testing.T) {
	if err := mutant.Check(root, mutants...); err != nil {
		t.Error(err)
	}
}

func TestTheTestsTurnRedForEachMutant(t *testing.T) {
	if testing.Short() {
		t.Skip("left out: it compiles parts of the service again, with a failure each; make test-all runs it")
	}
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			m.ExpectRed(t, root)
		})
	}
}
