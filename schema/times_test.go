package schema

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// moment is what a column of time is: whose clock writes it, who compares it with a clock later, and what happens if it lies ahead or behind
// because that clock was wrong for a moment.
type moment struct {
	writes, compares string
	ahead, behind    string
	tests            []string // that show it; empty: nothing compares it, or nothing stands still or is lost
}

var moments = map[string]moment{
	"async_job_tab.start_time": {
		writes: "whoever adds the job names it; outcomes, Retry and Reschedule by the database's clock", compares: "every look for due jobs",
		ahead:  "the job would wait for the clock; WrittenAhead finds what was put off for a time, and it waits from now on. What somebody has named stays",
		behind: "the job is due at once: a retry comes without its wait",
		tests:  []string{"TestWhatWasPutOffWhileTheClockWasAheadWaitsForAsLongAsItWasTo", "TestNothingIsLostAndNothingRunsTwiceWithoutCause"},
	},
	"async_job_tab.create_time": {
		writes: "the process that adds the job; of scheduled jobs the database", compares: "retention, FirstPullDay, the mark (rows that were created later have reused an id)",
		ahead:  "a page of such rows ended the retention's walk; now they say nothing. A mark with such a row in its batch would take a row that has reused an id, if its version is the same",
		behind: "FirstPullDay may leave the job alone, as it says; the row is not deleted before update_time is old, too",
		tests:  []string{"TestRowsThatSeemToBeCreatedLaterEndNoWalk", "TestAJobIsDeletedOnlyIfBothItsTimesAreOld"},
	},
	"async_job_tab.update_time": {
		writes: "the database", compares: "retention, Jobs.Delete, RetryAll's range, WrittenAhead",
		ahead:  "the finished job stays for that much longer",
		behind: "the finished job would be deleted at once; it stays until create_time is old, too",
		tests:  []string{"TestAJobIsDeletedOnlyIfBothItsTimesAreOld", "TestNothingIsDeletedByAClockThatIsAhead"},
	},
	"shedlock_tab.lock_until": {
		writes: "the database", compares: "everybody who wants the lease",
		ahead:  "a holder that lives renews it; if it died, or is nobody (Drain, HandOver), whoever has seen the row for longer than the lease may last ends it. A drain of more than 27 hours does not say how long it may last",
		behind: "the lease is over; its holder loses it, and somebody takes it",
		tests:  []string{"TestTheLeasesOfAProcessThatDiedWhileTheClockWasAheadAreTakenOver", "TestADrainThatBeganWhileTheClockWasAheadEnds"},
	},
	"shedlock_tab.locked_at": {
		writes: "the database", compares: "the release of a lease with a MinLock",
		ahead: "it counts as now", behind: "the MinLock is over",
		tests: []string{"TestALockThatWasTakenWhileTheClockWasAheadLastsNoLongerThanMinLockSecond"},
	},
	"async_job_log_tab.started":  {writes: "the holder, by its estimate of the database's clock", compares: "nobody; it is shown"},
	"async_job_log_tab.finished": {writes: "the holder, by its estimate of the database's clock", compares: "nobody; it is shown, and the last hour's errors are those of it"},
	"async_job_step_tab.created": {
		writes: "whoever wrote the job's create_time", compares: "the reads of steps, with the job's create_time; both stay as they are",
	},
	"async_job_step_tab.ended_at": {
		writes: "the holder, by its estimate of the database's clock, and whoever sends a signal, by the database's", compares: "nobody; it is shown",
	},
	"async_job_flow_tab.created_at": {
		writes: "the database", compares: "the deletion of flows that have ended, by two clocks",
		ahead: "the row stays for that much longer", behind: "it is not deleted before ended_at is old, too",
	},
	"async_job_flow_tab.ended_at": {
		writes: "the database", compares: "the deletion of flows that have ended, by two clocks",
		ahead: "the row stays for that much longer", behind: "it is not deleted before created_at is old, too",
		tests: []string{"TestAFlowIsDeletedOnlyIfBothItsTimesAreOld"},
	},
	"async_job_flow_tab.deadline": {
		writes: "the database", compares: "the look at flows, with the database's clock",
		ahead: "the flow may take that much longer", behind: "its time is over that much earlier",
	},
	"async_job_flow_tab.due_at": {
		writes: "the database", compares: "the look at flows, with the database's clock",
		ahead: "a flow that is to be undone is looked at that much later", behind: "it is looked at at once, and then says when again",
	},
	"async_job_node_tab.born": {
		writes: "whoever adds the node's job, as its create_time", compares: "the count, with the job's create_time; both stay as they are",
	},
	"async_job_step_tab.until_at": {
		writes: "the holder, by its estimate of the database's clock", compares: "the holder of a later run, by its own estimate, and whoever sends a signal, by the database's clock",
		ahead: "the job sleeps, or waits for a signal, for that much longer", behind: "the sleep or the wait ends that much earlier",
	},
	"async_job_type_tab.paused_at": {
		writes: "the database", compares: "paused_until: an end before it is not of this pause",
		ahead: "PauseUntil writes both anew if the end is earlier", behind: "the pause seems to last for longer",
		tests: []string{"TestAPauseWithAnEndAfterOneThatBeganWhileTheClockWasAhead"},
	},
	"async_job_type_tab.paused_until": {
		writes: "whoever pauses names it", compares: "the look at the leases, with the database's clock",
		ahead: "it is a moment that somebody named; if the database's clock is ahead, the pause is over, as jobs are due", behind: "likewise",
	},
	"async_job_type_tab.cron_at": {
		writes: "the holder, by its estimate of the database's clock", compares: "the schedule",
		ahead: "the schedule would stand still; it is mended if both clocks say so", behind: "times come again, and their jobs' keys are taken",
		tests: []string{"TestAScheduleGoesOnAfterTheDatabasesClockWasAhead"},
	},
	"async_job_type_tab.told_at": {writes: "the database", compares: "nobody; it is shown"},
	"async_job_now_tab.told_at": {
		writes: "the database", compares: "readers, who show how old it is; an instance that starts deletes what is a day old",
		ahead: "the row stays for that much longer", behind: "it may be deleted, and is written again within a minute; what rests tell of keys is deleted only if it is a day old by two clocks",
		tests: []string{"TestNothingIsOldByAClockThatIsAhead"},
	},
	"async_job_stat_tab.begins_at": {
		writes: "the stats, by an estimate of the database's clock", compares: "the roll-up and the deletion after 90 days",
		ahead: "the stats would count everything into that minute; they go on with the next one by the clock as it is. The row stays for that much longer", behind: "the row may be deleted early",
		tests: []string{"TestTheHistoryGoesOnAfterTheClockWasFarAhead", "TestNothingIsOldByAClockThatIsAhead"},
	},
	"async_job_lease_log_tab.taken_at": {writes: "the holder, by its estimate of the database's clock", compares: "nobody; it is shown"},
	"async_job_lease_log_tab.ended_at": {
		writes: "the holder, or the next one", compares: "the deletion after 90 days",
		ahead: "the row stays for that much longer", behind: "the row may be deleted early",
		tests: []string{"TestNothingIsOldByAClockThatIsAhead"},
	},
	"async_job_act_tab.acted_at": {writes: "the database", compares: "nobody; it is shown"},
	"async_job_act_tab.touched_at": {
		writes: "the database", compares: "whoever would go on with the operation",
		ahead: "the worker counts as gone; if it lives, it finds that it is the worker no more", behind: "likewise",
		tests: []string{"TestAnOperationGoesOnWhoseWorkerDiedWhileTheClockWasAhead"},
	},
	"async_job_schedule_tab.paused_at": {writes: "the database", compares: "nobody; it is shown"},
	"async_job_schedule_tab.put_at":    {writes: "the database", compares: "nobody; it is shown"},
	"async_job_schedule_tab.last_at":   {writes: "the holder: a time of the schedule", compares: "nobody; it is shown"},
	"async_job_schedule_tab.reached_at": {
		writes: "the database, and the holder: a time of the schedule", compares: "the schedule",
		ahead: "the schedule would stand still; it is mended if both clocks say so", behind: "times come again, and their jobs' keys are taken",
		tests: []string{"TestASchedulesRowGoesOnAfterTheClockWasAhead"},
	},
	"async_job_schedule_tab.next_at": {
		writes: "the holder: a time of the schedule", compares: "the look for schedules whose time has come",
		ahead: "it lies behind reached_at, which is mended", behind: "the look finds the row early, and reckons the time anew",
		tests: []string{"TestASchedulesRowGoesOnAfterTheClockWasAhead"},
	},
}

// noMoments are the columns that hold no time.
const noMoments = `
id params job_type job_status term attempts retries lost job_key unique_in priority max_retries changes progress result deferred meta job_group long_params
lock_name locked_by running layout job_id attempt outcome error instance cron_spec name settings workers rate state seconds counted holder how
actor verb why jobs first_job last_job detail operation reached last_id changed skipped worker steps kind step_value
spec catch_up revision last_job flow_key open_key nodes waits followers enders problem
alarms undo_nodes undo_after undo_job`

func TestEachColumnOfTimeIsJudgedForAClockThatWasAheadOrBehind(t *testing.T) {
	others, judged := strings.Fields(noMoments), map[string]bool{}
	text, err := files.ReadFile("mysql.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables(string(text)) {
		for _, c := range table.columns {
			name := table.name + "." + c.name
			_, known := moments[name]
			judged[name] = known
			switch {
			case known && slices.Contains(others, c.name):
				t.Errorf("%s is a time, and is none", name)
			case known:
			case !slices.Contains(others, c.name):
				t.Errorf("%s is new: if it holds a time, what happens if it lies ahead or behind?", name)
			case strings.Contains(c.add, "unix") || strings.Contains(c.add, "timestamp"):
				t.Errorf("%s holds a time: %s", name, c.add)
			}
		}
	}
	for name := range maps.Keys(moments) {
		if !judged[name] {
			t.Errorf("there is no column %s", name)
		}
	}
}

func TestWhatIsSaidOfColumnsOfTimeIsShownByTests(t *testing.T) {
	there, claims := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, root := range []string{"../tests", "../internal"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, claim := range claims.FindAllSubmatch(text, -1) {
				there[string(claim[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for column, m := range moments {
		if m.ahead != "" && m.behind == "" || m.writes == "" || m.compares == "" {
			t.Errorf("%s: not all is said", column)
		}
		for _, test := range m.tests {
			if !there[test] {
				t.Errorf("%s: there is no test %s", column, test)
			}
		}
	}
}
