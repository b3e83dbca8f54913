package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strconv"

	"gorm.io/gorm"

	persistent_queue "github.com/create-info/persistent-queue"
)

func (s *shop) routes(runner *persistent_queue.Runner) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /orders", answer(http.StatusCreated, s.postOrder))
	mux.Handle("GET /orders/{id}", answer(http.StatusOK, byID(s.order)))
	mux.Handle("POST /orders/{id}/pay", answer(http.StatusOK, byID(s.pay)))
	mux.Handle("POST /orders/{id}/refund", answer(http.StatusAccepted, byID(s.refund)))
	mux.Handle("GET /healthz", healthz(runner))
	return mux
}

// healthz says whether requests should come here: the queue is at work, and its database answers.
func healthz(runner *persistent_queue.Runner) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-runner.Ready():
			if err := runner.Health(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
			}
		default:
			http.Error(w, "not ready yet", http.StatusServiceUnavailable)
		}
	}
}

var errBadRequest = errors.New("bad request")

func (s *shop) postOrder(r *http.Request) (Order, error) {
	var wanted struct{ Customer, Cents int64 }
	if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
		return Order{}, fmt.Errorf("%w: %w", errBadRequest, err)
	}
	if wanted.Customer <= 0 || wanted.Cents <= 0 {
		return Order{}, fmt.Errorf("%w: customer and cents must be above 0", errBadRequest)
	}
	return s.place(r.Context(), wanted.Customer, wanted.Cents)
}

func byID(do func(ctx context.Context, id int64) (Order, error)) func(*http.Request) (Order, error) {
	return func(r *http.Request) (Order, error) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil {
			return Order{}, fmt.Errorf("%w: %w", errBadRequest, err)
		}
		return do(r.Context(), id)
	}
}

func answer(status int, do func(*http.Request) (Order, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		o, err := do(r)
		switch {
		case err == nil:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			if err := json.NewEncoder(w).Encode(o); err != nil {
				log.Print(err)
			}
		case errors.Is(err, errBadRequest):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case errors.Is(err, gorm.ErrRecordNotFound):
			http.Error(w, "no such order", http.StatusNotFound)
		case errors.Is(err, ErrState):
			http.Error(w, err.Error(), http.StatusConflict)
		default:
			log.Printf("%s %s: %v", r.Method, r.URL.Path, err)
			http.Error(w, "try again later", http.StatusInternalServerError)
		}
	}
}
