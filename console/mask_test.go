package console

import "testing"

func TestSecretsAreMaskedAndEverythingElseStaysAsItIs(t *testing.T) {
	for text, want := range map[string]string{
		`{"order": 12345678901234567890, "password" :  "p"}`:                      `{"order": 12345678901234567890, "password" :  "•••"}`,
		`{"password":"a","user":{"apiKey":{"k":[1,2]},"name":"x"},"n":1.50}`:      `{"password":"•••","user":{"apiKey":"•••","name":"x"},"n":1.50}`,
		`[{"token":null},{"Authorization":["Bearer x"],"b":true},"password","p"]`: `[{"token":"•••"},{"Authorization":"•••","b":true},"password","p"]`,
		`{"a":"secret","b":["token"]}`:                                            `{"a":"secret","b":["token"]}`,
		`{}`:                                                                      `{}`,
		`"password"`:                                                              `"password"`,
		`password=p`:                                                              `password=p`,
		`{"password":"p"`:                                                         `{"password":"p"`,
		``:                                                                        ``,
		`{"iban":"DE00","company":"spinach","pin":1}`: `{"iban":"•••","company":"spinach","pin":"•••"}`,
	} {
		if got := MaskSecrets(text); got != want {
			t.Errorf("%s becomes\n%s, want\n%s", text, got, want)
		}
	}
}

func TestIndentedTextKeepsItsDigits(t *testing.T) {
	if got, want := pretty(`{"a":[1.50,"<b>"]}`), "{\n  \"a\": [\n    1.50,\n    \"<b>\"\n  ]\n}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := pretty("no JSON"); got != "no JSON" {
		t.Error(got)
	}
}
