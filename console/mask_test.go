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
		`{"iban":"DE00","company":"spinach","pin":1}`:                           `{"iban":"•••","company":"spinach","pin":"•••"}`,
		`{"body":"{\"token\":\"<t>\",\"n\":1.50}" , "b":["{\"pin\":1}","<x>"]}`: `{"body":"{\"token\":\"•••\",\"n\":1.50}" , "b":["{\"pin\":\"•••\"}","<x>"]}`,
		`"{\"in\":\"{\\\"password\\\":\\\"p\\\"}\"}"`:                           `"{\"in\":\"{\\\"password\\\":\\\"•••\\\"}\"}"`,
		`{"before":"{\"passwords\":","after":"1 < 2"}`:                          `{"before":"{\"passwords\":","after":"1 < 2"}`,
	} {
		if got := MaskSecrets(text); got != want {
			t.Errorf("%s becomes\n%s, want\n%s", text, got, want)
		}
	}
}

func TestNamesOfSecretsAreKnownInEachSpelling(t *testing.T) {
	for _, name := range []string{
		"password", "PASSWD", "password_confirmation", "passwordHash", "password2", "old_passwords", "dbPass", "pwd", "passPhrase", "pass_code",
		"customer_iban", "ibanNumber", "IBANNumber", "IBAN", "card_cvv", "user_ssn", "accountPin", "cardPIN", "pin-code", "cardNumber", "card_number",
		"api_key", "apiKey", "APIKey", "privateKey", "accessToken", "client_secret", "sessionId", "Set-Cookie", "Authorization", "credentials",
	} {
		if !isSecret(name) {
			t.Errorf("%s is shown", name)
		}
	}
	for _, name := range []string{"company", "spinach", "pinned", "japan", "panel", "expand", "passenger", "order", "shipping", "opinion", "urban", "name", "key"} {
		if isSecret(name) {
			t.Errorf("%s is masked", name)
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
