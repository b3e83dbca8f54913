package keeper

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // the simulator has the engine, and that ants, which starts two goroutines when it is imported
}
