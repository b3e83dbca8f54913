package cli

import "testing"

func TestTheConsoleShowsNoQueryOfATasksAddress(t *testing.T) {
	for text, want := range map[string]string{
		`{"url":"https://shop.example/ok?token=s3cr3t&a=1","method":"GET"}`:        `{"url":"https://shop.example/ok?…","method":"GET"}`,
		`{"on_failure":{"url":"http://a/?x=1\u0026y=\"2\/3"},"headers":{"a":"b"}}`: `{"on_failure":{"url":"http://a/?…"},"headers":{"a":"b"}}`,
		`{"body_text":"see http://a/?t=1 and http://b/","password":"p"}`:           `{"body_text":"see http://a/?… and http://b/","password":"•••"}`,
		`{"url":"http://a/what"}`:                                                    `{"url":"http://a/what"}`,
		`{"url":"http:\/\/a\/ok?token=s3cr3t","method":"GET"}`:                       `{"url":"http://a/ok?…","method":"GET"}`,
		`{"url":"HTTPS://a/ok?token=s3cr3t"}`:                                        `{"url":"HTTPS://a/ok?…"}`,
		`{"url":"http://a/ok\u003ftoken=s3cr3t"}`:                                    `{"url":"http://a/ok?…"}`,
		`{"body_text":"{\"to\":\"http:\\/\\/a\\/?b=s3cr3t\",\"n\":1}","a\/b":"\/c"}`: `{"body_text":"{\"to\":\"http://a/?…\",\"n\":1}","a\/b":"\/c"}`,
		`"http://a/?b=c <d>"`:                                                        `"http://a/?… <d>"`,
		`no JSON http://a/?b=c`:                                                      `no JSON http://a/?…`,
		`{"url":"http:\/\/a\/?b=s3cr3t","x":"cut o`:                                  `{"url":"http:\/\/a\/?…","x":"cut o`,
	} {
		if got := maskTask(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
