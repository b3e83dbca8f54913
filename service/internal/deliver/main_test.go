package deliver

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// orMany is the number of a test or, if PQ_TEST_FIGURES is set, the one that takes minutes.
func orMany(usual, many int) int {
	if os.Getenv("PQ_TEST_FIGURES") != "" {
		return many
	}
	return usual
}
