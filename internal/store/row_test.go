package store

import "testing"

func TestATallyIsReadAsItIsWritten(t *testing.T) {
	for _, value := range []any{"1,-2,3,4,5,6", []byte("1,-2,3,4,5,6")} {
		var r Row
		if err := (tally{&r}).Scan(value); err != nil || r.Version() != (Version{1, -2, 5}) || r.Retries != 3 || r.Lost != 4 || r.Deferred != 6 {
			t.Errorf("%T is read as %+v, %v", value, r, err)
		}
		if err := (tally{&r}).Scan(nil); err != nil || r != (Row{}) {
			t.Errorf("NULL after that is read as %+v, %v", r, err)
		}
	}
}

func TestWhatIsNoTallyIsAnError(t *testing.T) {
	for _, value := range []any{"", "1,2,3,4", "1,2,3,4,5", "1,2,3,4,5,6,7", "1,2,3,4,5,x", int64(5)} {
		if err := (tally{new(Row)}).Scan(value); err == nil {
			t.Errorf("%q is read", value)
		}
	}
}
