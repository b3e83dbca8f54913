package ground

// Divide divides a list into the elements with a property and the others.
func Divide[T any](list []T, of func(T) bool) (yes, no []T) {
	for _, t := range list {
		if of(t) {
			yes = append(yes, t)
		} else {
			no = append(no, t)
		}
	}
	return yes, no
}
