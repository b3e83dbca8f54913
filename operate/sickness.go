package operate

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

// From when on it is worth a word that the database cannot clean up. Every run of a job leaves two or three old versions of its row, and of its
// entry in the due index. As long as some snapshot may see them, each look for due jobs passes over them.
const (
	heldLong = 30 * time.Second // transactions of services take parts of a second; a report or a dump of half a minute has left little behind
	muchDead = 10_000           // a thousand jobs a second leave as many in four seconds; fewer are nothing to wake anybody for

	// A server that is well has thousands. A million, with nobody to wait for, are the changes of minutes that the purge is behind.
	historyLong = 1_000_000
	// Autovacuum begins when a fifth of the rows are dead, and 50 more. Twice as many, and this many, say that it does not come, or not far enough.
	neverVacuumed = 100_000

	walKept     = 1 << 30      // max_wal_size, by default: what a busy server has anyway. An inactive slot keeps ever more
	walKeptBusy = 10 * 1 << 30 // and a consumer that is so far behind does not keep up
)

const (
	// oldSnapshot: a session, a prepared transaction, a standby or a replication slot keeps the database from cleaning up.
	oldSnapshot = "old snapshot"
	// deadRows: the database does not clean up, and nobody keeps it from doing so.
	deadRows = "dead rows"
	// keptWAL: a replication slot keeps the disk filling.
	keptWAL = "replication slot"
	// notSeen: the user may not see what keeps the database from cleaning up. It is a note.
	notSeen = "not seen"
)

const sickPatience = 3 * time.Second // the lists are short; whoever checks has more to hear

// sicknessOf asks what keeps the database from cleaning up, unless that was asked within a minute. Who checks may have gone meanwhile: the answer is
// for the next one, too.
func sicknessOf(ctx context.Context, jobs *queue_job.Jobs, st *record.Store) *record.Sickness {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sickPatience)
	defer cancel()
	return bridge.QueueJob.Sickness(ctx, jobs, st)
}

// judgeSickness says what keeps the database from cleaning up, and what helps.
func (h *Health) judgeSickness(sick *record.Sickness) {
	if sick == nil {
		return
	}
	say := func(severity Severity, kind, remedy, text string) {
		h.Findings = append(h.Findings, Finding{Severity: severity, Kind: kind, Text: text, Remedy: remedy})
	}
	switch {
	case sick.Lacks != "":
		say(Note, notSeen, fmt.Sprintf("Grant it that: %s.", grants[sick.Lacks]),
			fmt.Sprintf("Who keeps the database from cleaning up is not known, or not all of it: the user needs %s to see other users' sessions.", sick.Lacks))
	case sick.Err != nil:
		say(Note, notSeen, "", fmt.Sprintf("What keeps the database from cleaning up is not known: %v.", sick.Err))
	}
	harm, harmed := harmOf(sick)
	held := false
	for i := range sick.Signs {
		switch g := &sick.Signs[i]; {
		case harmed && holds(g):
			held = true
			text, remedy := holdText(g, harm)
			say(Warning, oldSnapshot, remedy, text)
		case g.Kind == record.SignSlot && (g.More >= walKeptBusy || g.State == "" && g.More >= walKept):
			say(Warning, keptWAL, slotRemedy(g), fmt.Sprintf("The replication slot %s, %s, keeps %.1f GiB of WAL on the server's disk.",
				g.ID, slotState(g), float64(g.More)/(1<<30)))
		}
	}
	for i := range sick.Signs {
		switch g := &sick.Signs[i]; {
		case held:
		case g.Kind == record.SignHistory && g.Amount >= historyLong:
			say(Warning, deadRows, "See to the server's disk, and to innodb_purge_threads.", fmt.Sprintf(
				"%s, and no transaction has been open for long: the purge does not keep up.", upper(harm)))
		case g.Kind == record.SignDead && g.Amount >= neverVacuumed && g.Amount > 2*(50+g.More/5):
			say(Warning, deadRows, vacuumRemedy(g, sick.Table), fmt.Sprintf(
				"%s, beside %d live ones, and nobody keeps them; %s.", upper(harm), g.More, vacuumed(g)))
		}
	}
}

var grants = map[string]string{
	"PROCESS":           "GRANT PROCESS ON *.* TO …",
	"pg_read_all_stats": "GRANT pg_read_all_stats TO …",
}

// harmOf says how much the database has to clean up, and whether that is much.
func harmOf(sick *record.Sickness) (text string, much bool) {
	for _, g := range sick.Signs {
		switch g.Kind {
		case record.SignHistory:
			return fmt.Sprintf("InnoDB has not purged %s (history list length)", words.Count(int(g.Amount), "transaction")), g.Amount >= muchDead
		case record.SignDead:
			return fmt.Sprintf("table %s has %s", sick.Table, words.Count(int(g.Amount), "dead row")), g.Amount >= muchDead
		}
	}
	return "", false
}

// holds reports whether it is worth a word what a sign holds. Slots and standbys do not say since when, but since how many transactions.
func holds(g *record.Sign) bool {
	switch g.Kind {
	case record.SignSession, record.SignPrepared:
		return time.Duration(g.Seconds)*time.Second >= heldLong
	case record.SignSlot, record.SignStandby:
		return g.Amount >= muchDead
	}
	return false
}

// holdText says who holds what, and what helps.
func holdText(g *record.Sign, harm string) (text, remedy string) {
	open := words.Roughly(time.Duration(g.Seconds) * time.Second)
	switch g.Kind {
	case record.SignSession:
		who := "another user's"
		if g.User != "" {
			who = g.User + "@" + g.Place
		}
		end := "SELECT pg_terminate_backend(" + g.ID + ")"
		if strings.HasPrefix(harm, "InnoDB") {
			end = "KILL " + g.ID
		}
		return fmt.Sprintf("Session %s (%s) has kept a transaction open for %s, so what has changed since then cannot be cleaned up: %s.%s",
			g.ID, who, open, harm, statementText(g)), fmt.Sprintf("End its transaction; if its program does not: %s.", end)
	case record.SignPrepared:
		if g.ID == "0" {
			return fmt.Sprintf("A prepared transaction has been open for %s, and has no session any more, so what has changed since then cannot be cleaned "+
				"up: %s.", open, harm), "Find it by XA RECOVER, and end it by XA COMMIT or XA ROLLBACK."
		}
		return fmt.Sprintf("The prepared transaction %s of %s has been open for %s, so what has changed since then cannot be cleaned up: %s.",
			g.ID, g.User, open, harm), fmt.Sprintf("End it: COMMIT PREPARED '%[1]s', or ROLLBACK PREPARED '%[1]s'.", strings.ReplaceAll(g.ID, "'", "''"))
	case record.SignStandby:
		return fmt.Sprintf("A standby (%s@%s) needs what was there %d transactions ago, so what has changed since then cannot be cleaned up: %s.",
			g.User, g.Place, g.Amount, harm), "End the query that runs on the standby, or set hot_standby_feedback to off there."
	}
	return fmt.Sprintf("The replication slot %s, %s, keeps what was there %d transactions ago, so what has changed since then cannot be cleaned up: %s.",
		g.ID, slotState(g), g.Amount, harm), slotRemedy(g)
}

func slotState(g *record.Sign) string {
	if g.State == "" {
		return "which nobody reads"
	}
	return "which somebody reads"
}

func slotRemedy(g *record.Sign) string {
	if g.State == "" {
		return fmt.Sprintf("Start who reads it, or drop it: SELECT pg_drop_replication_slot('%s').", strings.ReplaceAll(g.ID, "'", "''"))
	}
	return "See to who reads it: it does not keep up, or a query on the standby takes long."
}

func vacuumed(g *record.Sign) string {
	switch {
	case g.State == "off":
		return "autovacuum is off"
	case g.Seconds < 0:
		return "the table was never vacuumed"
	}
	return "the table was vacuumed " + words.Roughly(time.Duration(g.Seconds)*time.Second) + " ago"
}

func vacuumRemedy(g *record.Sign, table string) string {
	remedy := "VACUUM " + table
	if g.State == "off" {
		return remedy + "; and turn autovacuum on."
	}
	return remedy + "; and let autovacuum come sooner: ALTER TABLE " + table + " SET (autovacuum_vacuum_scale_factor = 0.02)."
}

// hiddenStatement is what PostgreSQL says instead of a statement that the user may not see.
const hiddenStatement = "<insufficient privilege>"

// statementText says what a session runs. Values do not belong in a finding: a customer's name may be among them.
func statementText(g *record.Sign) string {
	text := strings.Join(strings.Fields(aValue.ReplaceAllString(g.Statement, "?")), " ")
	const most = 120
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	switch {
	case g.Statement == "" && g.State == "idle":
		return " It runs nothing at the moment."
	case g.Statement == "", g.Statement == hiddenStatement:
		return ""
	case g.State == "active":
		return " It runs: " + text
	}
	return " It runs nothing at the moment; its last statement: " + text
}

// aValue is a text or a number in a statement, whose end may have been cut off. What PostgreSQL has in double quotes is a name, and is left out, too.
var aValue = regexp.MustCompile(`(?s)'(?:[^'\\]|\\.|'')*(?:'|$)|"(?:[^"\\]|\\.|"")*(?:"|$)|\$\w*\$.*|/\*.*?(?:\*/|$)|\b\d[\w.]*`)
