package ground

// Cut shortens a text to at most this many characters.
func Cut(text string, most int) string {
	return string([]rune(text)[:min(most, len([]rune(text)))])
}
