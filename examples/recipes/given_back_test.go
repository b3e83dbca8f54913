package recipes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queuetest"
)

// keyedPartners are partners that count requests by their keys, and in which the process can die.
type keyedPartners struct {
	charged, sent, refunded map[string]bool
	full                    bool // the lorry
}

func (k *keyedPartners) partners() Partners {
	note := func(ctx context.Context, of map[string]bool, key string) error {
		of[key] = true
		queuetest.Place(ctx, "the partner has done it")
		return nil
	}
	return Partners{
		Charge: func(ctx context.Context, _ Purchase, key string) error { return note(ctx, k.charged, key) },
		Send: func(ctx context.Context, _ Purchase, key string) error {
			if k.full {
				return errors.New("the lorry is full")
			}
			return note(ctx, k.sent, key)
		},
		Refund: func(ctx context.Context, chargeKey, _ string) error {
			if !k.charged[chargeKey] {
				return nil
			}
			return note(ctx, k.refunded, chargeKey)
		},
	}
}

func TestAPurchaseIsSentOrTakenBackWhereverItsProcessDies(t *testing.T) {
	for what, c := range map[string]struct {
		full                    bool
		stock                   int
		state                   string
		left, charged, refunded int
	}{
		"sent":       {false, 5, "sent", 4, 1, 0},
		"taken back": {true, 5, "returned", 5, 1, 1},
		"sold out":   {false, 0, "returned", 0, 0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			queuetest.CrashEverywhere(t, func(t *testing.T) queuetest.World {
				k := &keyedPartners{map[string]bool{}, map[string]bool{}, map[string]bool{}, c.full}
				return queuetest.World{
					Start: func(q *queuetest.Queue) {
						q.Handle(HandlePurchase(q.DB, q.Jobs, k.partners()), HandleReturn(q.DB, k.partners()))
					},
					Begin: func(q *queuetest.Queue) {
						execute(t, q, "CREATE TABLE purchases (id bigint PRIMARY KEY, state text, reserved int)")
						execute(t, q, "CREATE TABLE items (id bigint PRIMARY KEY, in_stock int)")
						execute(t, q, fmt.Sprintf("INSERT INTO items VALUES (9, %d)", c.stock))
						execute(t, q, "INSERT INTO purchases VALUES (1, 'open', 0)")
						_, err := FulfilPurchase.Add(t.Context(), q.Jobs, q.DB, Purchase{1, 9})
						must(t, err)
					},
					Check: func(q *queuetest.Queue) {
						state, left := look[string](t, q, "SELECT state FROM purchases"), look[int](t, q, "SELECT in_stock FROM items")
						if state != c.state || left != c.left || len(k.charged) != c.charged || len(k.refunded) != c.refunded || (len(k.sent) == 1) != (c.state == "sent") {
							t.Errorf("%s, %d in stock, %d charged, %d refunded, %d sent", state, left, len(k.charged), len(k.refunded), len(k.sent))
						}
					},
				}
			})
		})
	}
}

// The same with money: where the outcome is written with the effect, nothing moves twice, and nothing is lost.
func TestMoneyMovesOnceWhereverTheProcessDies(t *testing.T) {
	queuetest.CrashEverywhere(t, func(t *testing.T) queuetest.World {
		return queuetest.World{
			Start: func(q *queuetest.Queue) { q.Handle(HandleTransfer(q.DB)) },
			Begin: func(q *queuetest.Queue) {
				execute(t, q, "CREATE TABLE accounts (id bigint PRIMARY KEY, cents bigint)")
				execute(t, q, "INSERT INTO accounts VALUES (1, 100), (2, 0)")
				_, err := MoveMoney.Add(t.Context(), q.Jobs, q.DB, Transfer{1, 2, 30})
				must(t, err)
			},
			Play: func(q *queuetest.Queue) {
				q.RunDue()
				q.Advance(time.Hour)
				q.RunDue()
			},
			Check: func(q *queuetest.Queue) {
				if from, to := look[int](t, q, "SELECT cents FROM accounts WHERE id = 1"), look[int](t, q, "SELECT cents FROM accounts WHERE id = 2"); from != 70 || to != 30 {
					t.Error(from, to)
				}
			},
		}
	})
}
