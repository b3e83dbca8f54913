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

func TestAnEndIsToldToThoseWhoListenAndToNobodyElse(t *testing.T) {
	var one, two []uint64
	endOne := OnEnd(func(ids []uint64) { one = append(one, ids...) })
	endTwo := OnEnd(func(ids []uint64) { two = append(two, ids...) })
	Ended([]uint64{1, 2})
	endOne()
	endOne()
	Ended([]uint64{3})
	endTwo()
	Ended([]uint64{4})
	if len(one) != 2 || len(two) != 3 || len(hearers) != 0 {
		t.Fatalf("heard %v and %v, and %d still listen", one, two, len(hearers))
	}
}

func TestAPutScheduleWakesThoseWhoListenForItAndNobodyElse(t *testing.T) {
	puts, end := ListenForPuts()
	defer end()
	added, endAdded := Listen()
	defer endAdded()
	Put()
	if !heard(puts) || heard(added) {
		t.Fatal("a put is not told to those who listen for it, or to others, too")
	}
}
