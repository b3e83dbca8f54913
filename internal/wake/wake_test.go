package wake

import "testing"

func heard(listener <-chan struct{}) bool {
	select {
	case <-listener:
		return true
	default:
		return false
	}
}

func TestNotifyWakesEveryListenerOnce(t *testing.T) {
	one, endOne := Listen()
	defer endOne()
	two, endTwo := Listen()
	defer endTwo()
	if heard(one) {
		t.Fatal("woken by nobody")
	}
	Notify()
	Notify() // not read yet: falls together with the first, and waits for nobody
	if !heard(one) || !heard(two) {
		t.Fatal("a listener was not woken")
	}
	if heard(one) || heard(two) {
		t.Fatal("a listener was woken twice")
	}
	Notify()
	if !heard(one) {
		t.Fatal("a listener was woken only once for ever")
	}
}

func TestWhoHasEndedListeningIsNotWoken(t *testing.T) {
	ended, end := Listen()
	end()
	end()
	Notify()
	if heard(ended) || len(listeners) != 0 {
		t.Fatal("still listening")
	}
}
