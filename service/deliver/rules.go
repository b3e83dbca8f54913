package deliver

// Rules say what an answer means. The zero value: 2xx is success, 410 is the end, all else is tried again.
type Rules struct {
	// Success are the statuses that mean success; none: 200 to 299.
	Success []StatusRange
	// Permanent are statuses that no retry can repair.
	Permanent []StatusRange
	// Strict4xx makes 400, 404, 405 and 422 permanent, too.
	Strict4xx bool
	// BodyEquals, if not empty, is what the body of a success must be, without the space around it.
	BodyEquals string
	// BodyJSON, if not empty, says which fields the JSON object of a success must have: the name of a field to its value as JSON text,
	// such as "code" to "0" or "status" to `"ok"`.
	BodyJSON map[string]string
}

// StatusRange are the statuses from From to To, both included.
type StatusRange struct{ From, To int }

// needBody reports whether the body of a success counts.
func (r *Rules) needBody() bool { return r.BodyEquals != "" || len(r.BodyJSON) > 0 }
