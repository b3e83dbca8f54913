package wake

var signalHearers = map[*func()]struct{}{}

// OnSignal calls a function after every [Signalled], until stop is called. The function must not block.
func OnSignal(do func()) (stop func()) {
	mu.Lock()
	defer mu.Unlock()
	signalHearers[&do] = struct{}{}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		delete(signalHearers, &do)
	}
}

// Signalled tells those who look for due rows in this process that one that waited may be due now. It is only a hint, as [Notify] is.
func Signalled() {
	mu.Lock()
	defer mu.Unlock()
	for do := range signalHearers {
		(*do)()
	}
}
