package service_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/service"
)

// A receiver checks the signature over the bytes of the body, before it parses them.
func ExampleVerify() {
	const secret = "whsec_j1DvaAfUxVIFSW1qA5IEU4iRTTA0AQ6K5TK3oIUOhFg="
	receive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = service.Verify(r.Header, body, secret, time.Now())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
		}
	})

	// What the service sends, for the test of a receiver.
	signer, err := service.NewSigner(service.Secret{Key: secret})
	if err != nil {
		log.Fatal(err)
	}
	now, body := time.Now(), `{"order":42}`
	signature, err := signer.Sign("task-1", now, []byte(body))
	if err != nil {
		log.Fatal(err)
	}
	for _, sent := range []string{body, `{"order":43}`} {
		call := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(sent))
		call.Header.Set("webhook-id", "task-1")
		call.Header.Set("webhook-timestamp", fmt.Sprint(now.Unix()))
		call.Header.Set("webhook-signature", signature)
		answer := httptest.NewRecorder()
		receive.ServeHTTP(answer, call)
		fmt.Println(answer.Code)
	}
	// Output:
	// 200
	// 401
}
