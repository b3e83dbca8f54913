package cli

import "testing"

func TestTheConsoleShowsNoQueryOfATasksAddress(t *testing.T) {
	for text, want := range map[string]string{
		`{"url":"https://shop.example/ok?token=s3cr3t&a=1","method":"GET"}`:        `{"url":"https://shop.example/ok?…","method":"GET"}`,
		`{"on_failure":{"url":"http://a/?x=1\u0026y=\"2\/3"},"headers":{"a":"b"}}`: `{"on_failure":{"url":"http://a/?…"},"headers":{"a":"b"}}`,
		`{"body_text":"see http://a/?t=1 and http://b/","password":"p"}`:           `{"body_text":"see http://a/?… and http://b/","password":"•••"}`,
		`{"url":"http://a/what"}`: `{"url":"http://a/what"}`,
		`no JSON http://a/?b=c`:   `no JSON http://a/?…`,
	} {
		if got := maskTask(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
