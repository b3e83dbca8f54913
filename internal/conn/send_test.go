package conn

import (
	"runtime"
	"sync/atomic"
	"testing"
)

func TestAStatementThatWaitsForItsTurnGoesAsSoonAsTheOneBeforeItIsDone(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that the second runs while the first has yet to wait for something, or not at all
	const times = 100
	one, atOnce := newTurn(), 0
	for range times {
		leave, err := one.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var went atomic.Bool
		waits, done := make(chan struct{}), make(chan struct{})
		go func() {
			close(waits)
			leave, err := one.enter(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			went.Store(true)
			leave()
			close(done)
		}()
		<-waits
		runtime.Gosched() // and now it waits for its turn
		leave()
		if went.Load() {
			atOnce++
		}
		<-done
	}
	if atOnce < times*9/10 { // now and then, the scheduler takes somebody else first
		t.Errorf("%d of %d went at once", atOnce, times)
	}
}
