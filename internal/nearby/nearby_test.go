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

		local + "X-Forwarded-For=": false, local + "x_forwarded_for=10.0.0.1": false, local + "HTTP/1.0": false, local + "X-Forwarded-Proto=https": false,
		local + "X-Forwarded-Anything=x": false, local + "Cf-Connecting-Ip=10.0.0.1": false, local + "CF-Ray=x": false, local + "True-Client-Ip=10.0.0.1": false,
		local + "X-Client-Ip=10.0.0.1": false, local + "X-Envoy-External-Address=10.0.0.1": false, local + "X-ARR-LOG-ID=x": false, local + "X-Original-Forwarded-For=x": false,
		local + "Webhook-Id=pq_1": false, local + "Pq-Topic=shop.h": false, local + "Pq-Attempt=1": false, local + "pq_topic=shop.h": false,
		local + "Accept=*/* User-Agent=curl/8 X-Request-Id=7 Traceparent=00-0-0-00": true,

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
			name, value, isHeader := strings.Cut(header, "=")
			if !isHeader {
				r.Proto, r.ProtoMajor, r.ProtoMinor = header, 1, 0
				continue
			}
			r.Header.Set(name, value)
		}
		if FromThisMachine(r) != want {
			t.Errorf("%s: %v, want %v", request, !want, want)
		}
	}
}
