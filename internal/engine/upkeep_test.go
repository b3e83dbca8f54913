package engine

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/logger"
)

func TestTheLogHearsHowManyJobsAreStillLeftAlone(t *testing.T) {
	for n, want := range map[int]string{
		0:                 "",
		1:                 "1 job left alone, and never run: due more than FirstPullDay = 7 days before the start",
		5:                 "5 jobs left alone",
		upkeep.OrphansMax: "at least 10000 jobs left alone",
	} {
		var text bytes.Buffer
		l := lineOf(10)
		l.cfg.FirstPullDay, l.log, l.about = 7, logger.QueueLog{Slog: slog.New(slog.NewTextHandler(&text, nil))}, context.Background()
		l.backlog.leftAlone.Store(8)
		u := upkeptLine{l}
		if _, _, any := u.LeftAlone(); !any {
			t.Fatal("there were some")
		}
		u.TellLeftAlone(n)
		if _, _, any := u.LeftAlone(); any != (n > 0) || !strings.Contains(text.String(), want) || (n == 0) != (text.Len() == 0) {
			t.Errorf("%d: the log says %s", n, &text)
		}
	}
}
