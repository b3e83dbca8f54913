package main

import (
	"context"
	"log"
	"net"
	"net/http"
	"sync"
)

// What a real shop has elsewhere: a mail server, a search engine and a bank.

func logMail(_ context.Context, m Mail, idempotencyKey string) error {
	log.Printf("mail to customer %d: order %d is %s (%s)", m.Customer, m.Order, m.News, idempotencyKey)
	return nil
}

func logOrders(_ context.Context, orders []Order) (refused map[int64]error, err error) {
	log.Printf("search: %d orders", len(orders))
	return nil, nil
}

// openBank opens a bank that decides about a refund when it is asked for the second time. It is there as long as the process.
func openBank() (url string, err error) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return "", err
	}
	var asked sync.Map
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, again := asked.LoadOrStore(r.URL.Path, true); !again {
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	return "http://" + listener.Addr().String(), nil
}
