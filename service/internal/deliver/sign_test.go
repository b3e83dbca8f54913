package deliver

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The example that Standard Webhooks publishes.
const (
	testSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	testID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	testSeconds   = 1614265330
	testBody      = `{"test": 2432232314}`
	testSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

	testPrivate = "whsk_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
)

var testTime = time.Unix(testSeconds, 0)

func TestTheSignatureIsThatOfStandardWebhooks(t *testing.T) {
	if got := signWith(t, testTime, Secret{Key: testSecret}); got != testSignature {
		t.Errorf("got %s, want %s", got, testSignature)
	}
}

func TestEachValidSecretSigns(t *testing.T) {
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte("another secret of 32 bytes, just"))
	third := "whsec_" + base64.StdEncoding.EncodeToString([]byte("a third secret of 32 bytes, thus"))
	hour := time.Hour
	secrets := []Secret{{Key: testSecret, NotAfter: testTime.Add(hour)}, {Key: other, NotBefore: testTime.Add(-hour), NotAfter: testTime.Add(2 * hour)},
		{Key: third, NotBefore: testTime.Add(hour)}, {Key: testPrivate}}
	public, err := PublicKey(testPrivate)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at                        time.Time
		first, second, third, ed1 bool
	}{
		{testTime, true, true, false, true},
		{testTime.Add(-hour - 1), true, false, false, true},
		{testTime.Add(hour), false, true, true, true}, // a second rotation: the first secret is gone, the second still counts
		{testTime.Add(2 * hour), false, false, true, true},
	} {
		header := signedHeader(signWith(t, c.at, secrets...), c.at)
		for key, want := range map[string]bool{testSecret: c.first, other: c.second, third: c.third, public: c.ed1} {
			if err := Verify(header, []byte(testBody), key, c.at); (err == nil) != want {
				t.Errorf("at %v, key %.12s: %v, want valid: %v", c.at, key, err, want)
			}
		}
	}
}

func TestNoCallGoesOutWithoutTheSignatureThatItsReceiverExpects(t *testing.T) {
	r := receiver(t, func(http.ResponseWriter, *http.Request) { t.Error("the receiver was called") })
	signer, err := NewSigner(Secret{Key: testSecret, NotAfter: testTime})
	if err != nil {
		t.Fatal(err)
	}
	call := callTo(r.URL)
	call.Topic.Signer = signer
	d := newDeliverer(t, Config{Guard: local(t)})
	if result := d.Deliver(t.Context(), call); result.Outcome != Retry || !strings.Contains(result.Detail, "no secret") {
		t.Errorf("%+v", result)
	}
	if in := d.Destinations(nil, 9)[0].InFlight; in != 0 {
		t.Errorf("%d calls are still in flight", in)
	}
}

func TestForgedRequestsAreRefused(t *testing.T) {
	public, _ := PublicKey(testPrivate)
	good := signedHeader(signWith(t, testTime, Secret{Key: testSecret}, Secret{Key: testPrivate}), testTime)
	raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(testSignature, "v1,"))
	shorter, longer := base64.StdEncoding.EncodeToString(raw[:len(raw)-1]), base64.StdEncoding.EncodeToString(append(bytes.Clone(raw), 0))
	with := func(name, value string) http.Header {
		h := good.Clone()
		h.Set(name, value)
		return h
	}
	for what, c := range map[string]struct {
		header http.Header
		body   string
		now    time.Time
	}{
		"another body":            {good, testBody + " ", testTime},
		"no body":                 {good, "", testTime},
		"another id":              {with("Webhook-Id", testID+"1"), testBody, testTime},
		"no id":                   {with("Webhook-Id", ""), testBody, testTime},
		"another time":            {with("Webhook-Timestamp", strconv.Itoa(testSeconds+1)), testBody, testTime},
		"no time":                 {with("Webhook-Timestamp", ""), testBody, testTime},
		"a time that is none":     {with("Webhook-Timestamp", "yesterday"), testBody, testTime},
		"an old request":          {good, testBody, testTime.Add(5*time.Minute + time.Second)},
		"a request of the future": {good, testBody, testTime.Add(-5*time.Minute - time.Second)},
		"no signature":            {with("Webhook-Signature", ""), testBody, testTime},
		"an empty signature":      {with("Webhook-Signature", "v1, v1a,"), testBody, testTime},
		"a shorter signature":     {with("Webhook-Signature", "v1,"+shorter), testBody, testTime},
		"a longer signature":      {with("Webhook-Signature", "v1,"+longer), testBody, testTime},
		"another version":         {with("Webhook-Signature", strings.Replace(testSignature, "v1,", "v2,", 1)), testBody, testTime},
		"the key's other kind":    {with("Webhook-Signature", strings.Replace(testSignature, "v1,", "v1a,", 1)), testBody, testTime},
		"id and body shifted":     {with("Webhook-Id", testID+"."+strconv.Itoa(testSeconds)), testBody, testTime},
	} {
		for _, key := range []string{testSecret, public} {
			if Verify(c.header, []byte(c.body), key, c.now) == nil {
				t.Errorf("%s passes with %.6s", what, key)
			}
		}
	}
	for _, key := range []string{testSecret, public} {
		if err := Verify(good, []byte(testBody), key, testTime); err != nil {
			t.Errorf("the good one with %.6s: %v", key, err)
		}
	}
}

func TestSecretsThatProtectNobodyAreRefused(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	for what, s := range map[string]Secret{
		"empty": {}, "only the prefix": {Key: "whsec_"}, "short": {Key: "whsec_" + b64([]byte("23 bytes, not random at"))}, "long": {Key: "whsec_" + b64(make([]byte, 65))},
		"zeros": {Key: "whsec_" + b64(make([]byte, 32))}, "no base64": {Key: "whsec_this is not base64, is it?!!!!!"}, "no prefix": {Key: testSecret[6:]},
		"a public key": {Key: "whpk_" + testSecret[6:]}, "short Ed25519": {Key: "whsk_" + b64(make([]byte, 31))}, "halves that differ": {Key: "whsk_" + b64(make([]byte, 64))},
		"never valid": {Key: testSecret, NotBefore: testTime, NotAfter: testTime},
	} {
		_, err := NewSigner(Secret{Key: testSecret}, s)
		if err == nil || !strings.Contains(err.Error(), "secret 2") {
			t.Errorf("%s: %v", what, err)
		} else if s.Key != "" && len(s.Key) > 10 && strings.Contains(err.Error(), s.Key[6:]) {
			t.Errorf("%s: the error shows the secret: %v", what, err)
		}
	}
	if _, err := NewSigner(); err == nil {
		t.Error("no secrets at all pass")
	}
	if _, err := NewSigner(make([]Secret, secretsMax+1)...); err == nil {
		t.Error("too many secrets pass")
	}
}

func signWith(t *testing.T, at time.Time, secrets ...Secret) string {
	t.Helper()
	signer, err := NewSigner(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	header, err := signer.Sign(testID, at, []byte(testBody))
	if err != nil {
		t.Fatal(err)
	}
	return header
}

func signedHeader(signature string, at time.Time) http.Header {
	return http.Header{"Webhook-Id": {testID}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}, "Webhook-Signature": {signature}}
}
