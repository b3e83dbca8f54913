package deliver

import "fmt"

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

// Contradiction says which rule can never count beside the others, by the name of its field, and why. Empty: each can.
func (r *Rules) Contradiction() (field, why string) {
	for status := 200; status <= 599; status++ {
		if isSuccess(status, r) && inRanges(status, r.Permanent) {
			return "Permanent", fmt.Sprintf("%d means success already; leave it out here or there", status)
		}
	}
	if r.BodyEquals != "" && len(r.BodyJSON) > 0 {
		return "BodyJSON", "the whole body is asked for already, and so are its fields; leave out one of the two"
	}
	if r.needBody() {
		for status := 200; status <= 599; status++ {
			if isSuccess(status, r) && !isBodyless(status) {
				return "", ""
			}
		}
		return "Success", "an answer with 204, 205 or 304 has no body, and one is asked for; name other statuses, or leave out what is asked of the body"
	}
	return "", ""
}

// isBodyless reports whether an answer with a status has no body.
func isBodyless(status int) bool { return status == 204 || status == 205 || status == 304 }
