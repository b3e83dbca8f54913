package nearby

import (
	"net/http/httptest"
	"strings"
	"testing"
)

func TestOnlyProgramsOnThisMachineAreNearby(t *testing.T) {
	const local = "GET 127.0.0.1:9 localhost:8080 "
	for request, want := range map[string]bool{ // method, peer, host and headers
		local: true, "POST 127.0.0.1:9 127.0.0.1:8080": true, "GET [::1]:9 [::1]:8080": true, "GET 127.0.0.1:9 127.0.0.1": true,
		"GET 10.0.0.1:9 localhost:8080": false, "GET 127.0.0.1:9 evil.example": false, "GET nobody localhost": false,
		local + "Forwarded=for=10.0.0.1": false, local + "X-Forwarded-For=10.0.0.1": false, local + "X-Real-Ip=10.0.0.1": false, local + "Via=1.1": false,

		local + "Sec-Fetch-Site=same-origin": true, local + "Sec-Fetch-Site=none": true, local + "Origin=http://localhost:8080": true,
		local + "Sec-Fetch-Site=cross-site": false, local + "Sec-Fetch-Site=same-site": false, local + "Origin=http://evil.example": false,
		local + "Origin=null": false, local + "Origin=http://localhost:3000": false, local + "Sec-Fetch-Site=cross-site Sec-Fetch-Mode=no-cors Sec-Fetch-Dest=image": false,

		local + "Sec-Fetch-Site=cross-site Sec-Fetch-Mode=navigate Sec-Fetch-Dest=document":                    true, // a link
		local + "Sec-Fetch-Site=cross-site Sec-Fetch-Mode=navigate Sec-Fetch-Dest=iframe":                      false,
		"POST 127.0.0.1:9 localhost Sec-Fetch-Site=cross-site Sec-Fetch-Mode=navigate Sec-Fetch-Dest=document": false, // a form
	} {
		parts := strings.Fields(request)
		r := httptest.NewRequest(parts[0], "http://"+parts[2]+"/", nil)
		r.RemoteAddr = parts[1]
		for _, header := range parts[3:] {
			name, value, _ := strings.Cut(header, "=")
			r.Header.Set(name, value)
		}
		if FromThisMachine(r) != want {
			t.Errorf("%s: %v, want %v", request, !want, want)
		}
	}
}
