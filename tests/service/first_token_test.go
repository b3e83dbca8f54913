package service

import (
	"net/http"
	"sync"
	"testing"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestOfManyProcessesThatStartAtOnceOneMakesTheFirstToken(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.OpenToThisMachine = false })
		api.send(http.StatusUnauthorized, "GET", "/v1/topics", "")
		for range 3 {
			var mu sync.Mutex
			var texts []string
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					tokens, err := service.OpenTokens(t.Context(), d.DB, "")
					if err != nil {
						t.Error(err)
						return
					}
					text, err := tokens.First(t.Context())
					if err != nil {
						t.Error(err)
					}
					if text != "" {
						mu.Lock()
						texts = append(texts, text)
						mu.Unlock()
					}
				})
			}
			all.Wait()
			tokens, err := service.OpenTokens(t.Context(), d.DB, "")
			if err != nil {
				t.Fatal(err)
			}
			if list, err := tokens.List(t.Context()); err != nil || len(texts) != 1 || len(list) != 1 {
				t.Fatalf("%d made one, and there are %d: %v", len(texts), len(list), err)
			}
			await(t, "the token counts", func() bool {
				return api.try("GET", "/v1/tokens", "", "Authorization: Bearer "+texts[0]).StatusCode == http.StatusOK
			})
			if there, err := tokens.Revoke(t.Context(), "first"); err != nil || !there {
				t.Fatal(there, err)
			}
		}
		await(t, "nobody may call any more", func() bool { return api.try("GET", "/v1/topics", "").StatusCode == http.StatusUnauthorized })
	})
}
