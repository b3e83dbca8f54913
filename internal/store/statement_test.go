package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// aNode is a node of the flow 3.
var aNode = store.NodeID(3, 1)

// verbs calls everything that sends a statement.
var verbs = map[string]func(context.Context, *record.Store){
	"AddScheduled": func(ctx context.Context, s *record.Store) {
		_, _ = s.AddScheduled(ctx, 7, 1_700_000_060, "cron-1", "{}")
	},
	"BeginSchedule": func(ctx context.Context, s *record.Store) { _ = s.BeginSchedule(ctx, 7, 1_700_000_000, "@hourly") },
	"MendSchedule":  func(ctx context.Context, s *record.Store) { _ = s.MendSchedule(ctx, 7, 1_700_000_060, 1_700_000_000) },
	"WrittenAhead": func(ctx context.Context, s *record.Store) {
		_, _ = s.WrittenAhead(ctx, []int32{7, 8}, 1_700_000_000, 100)
	},
	"MendAhead":      func(ctx context.Context, s *record.Store) { _, _ = s.MendAhead(ctx, ids, 1_700_000_000) },
	"MendFlowsAhead": func(ctx context.Context, s *record.Store) { _, _ = s.MendFlowsAhead(ctx) },
	"NoteScheduled":  func(ctx context.Context, s *record.Store) { _ = s.NoteScheduled(ctx, 7, 1_700_000_060) },
	"HasScheduled":   func(ctx context.Context, s *record.Store) { _, _ = s.HasScheduled(ctx, 7, "cron-1") },
	"Sickness":       func(ctx context.Context, s *record.Store) { _ = s.Sickness(ctx) },
	"Schedule":       func(ctx context.Context, s *record.Store) { _, _ = s.Schedule(ctx, 7) },
	"Abandoned": func(ctx context.Context, s *record.Store) {
		for _, lane := range store.Lanes() {
			_, _, _ = s.Abandoned(ctx, 7, lane, 1000, 500)
		}
	},
	"PutSchedule":    func(ctx context.Context, s *record.Store) { _ = s.PutSchedule(ctx, &timed) },
	"AnySchedule":    func(ctx context.Context, s *record.Store) { _, _ = s.AnySchedule(ctx) },
	"DueSchedules":   func(ctx context.Context, s *record.Store) { _, _ = s.DueSchedules(ctx, 1_700_000_000, 100) },
	"SchedulesAhead": func(ctx context.Context, s *record.Store) { _, _ = s.SchedulesAhead(ctx, 1_700_000_000, 100) },
	"Timetable":      func(ctx context.Context, s *record.Store) { _, _ = s.Timetable(ctx, 1000) },
	"FireSchedule": func(ctx context.Context, s *record.Store) {
		_, _ = s.FireSchedule(ctx, &timed, 1_700_000_060, 1_700_000_120, 1_700_000_058)
	},
	"NoteFired": func(ctx context.Context, s *record.Store) {
		_, _ = s.NoteFired(ctx, &timed, 1_700_000_060, 1_700_000_120, 5)
	},
	"PassSchedule": func(ctx context.Context, s *record.Store) {
		_ = s.PassSchedule(ctx, &timed, 1_700_000_060, record.NoNext)
	},
	"MendScheduleRow": func(ctx context.Context, s *record.Store) { _ = s.MendScheduleRow(ctx, &timed, 1_600_000_000) },
	"PauseSchedule":   func(ctx context.Context, s *record.Store) { _, _ = s.PauseSchedule(ctx, "nightly") },
	"ResumeSchedule":  func(ctx context.Context, s *record.Store) { _, _ = s.ResumeSchedule(ctx, "nightly") },
	"DeleteSchedule":  func(ctx context.Context, s *record.Store) { _, _ = s.DeleteSchedule(ctx, "nightly") },
	"Schedules": func(ctx context.Context, s *record.Store) {
		_, _ = s.Schedules(ctx, record.ScheduleFilter{Name: "nightly", Prefix: "n", After: "a"}, 100)
	},
	"AddJob":  func(ctx context.Context, s *record.Store) { _, _ = s.AddJob(ctx, &newJobs[0], 1_700_000_000) },
	"AddJobs": func(ctx context.Context, s *record.Store) { _, _ = s.AddJobs(ctx, newJobs, 1_700_000_000) },
	"AddUnlessThere": func(ctx context.Context, s *record.Store) {
		_, _, _ = s.AddUnlessThere(ctx, &newJobs[1], 1_700_000_000)
	},
	"AddJobsUnlessThere": func(ctx context.Context, s *record.Store) {
		_, _ = s.AddJobsUnlessThere(ctx, []store.NewJob{newJobs[1], another}, 1_700_000_000)
	},
	"AddJobsUnlessThere, types": func(ctx context.Context, s *record.Store) {
		other := another
		other.JobType++
		_, _ = s.AddJobsUnlessThere(ctx, []store.NewJob{newJobs[1], another, other}, 1_700_000_000)
	},
	"ReplaceWaiting": func(ctx context.Context, s *record.Store) {
		_, _ = s.ReplaceWaiting(ctx, []uint64{1, 2}, []store.NewJob{newJobs[1], another})
	},
	"ReplaceWaiting, rows": func(ctx context.Context, s *record.Store) {
		_, _ = store.Replace(&s.Store, ctx, []uint64{1, 2}, []store.NewJob{newJobs[1], another})
	},
	"AddJob, long": func(ctx context.Context, s *record.Store) { _, _ = s.AddJob(ctx, &long, 1_700_000_000) },
	"AddJobs, long": func(ctx context.Context, s *record.Store) {
		_, _ = s.AddJobs(ctx, []store.NewJob{newJobs[0], long}, 1_700_000_000)
	},
	"LastAttempts": func(ctx context.Context, s *record.Store) { _, _ = s.LastAttempts(ctx, 500) },
	"AttemptsOf":   func(ctx context.Context, s *record.Store) { _, _ = s.AttemptsOf(ctx, ids) },
	"Restore":      func(ctx context.Context, s *record.Store) { _, _, _ = s.Restore(ctx, archived) },
	"Cancel":       func(ctx context.Context, s *record.Store) { _, _ = s.Cancel(ctx, ids) },
	"Columns": func(ctx context.Context, s *record.Store) {
		_, _ = s.Columns(ctx, []string{s.Tables.Jobs, s.Tables.Leases})
	},
	"Count":    func(ctx context.Context, s *record.Store) { _, _ = s.Count(ctx, []int32{7}, []int32{0, 2}, 1000) },
	"CountDue": func(ctx context.Context, s *record.Store) { _, _ = s.CountDue(ctx, 7, 1000, 500, 100) },
	"DeleteOld": func(ctx context.Context, s *record.Store) {
		_, _ = s.DeleteOld(ctx, record.Old{Before: map[int32]int64{1: 1000, 2: 900, 5: 1000}}, record.OldPage{Old: ids, After: 3, UpTo: 500}, record.Steps{})
	},
	"FindOld": func(ctx context.Context, s *record.Store) {
		_, _ = s.FindOld(ctx, record.Old{Types: []int32{7}}, 3, 100)
	},
	"DeleteStrays": func(ctx context.Context, s *record.Store) {
		_, _ = s.DeleteStrays(ctx, record.OldPage{After: 3, UpTo: 500}, record.Steps{})
	},
	"DeleteOld, attempts": func(ctx context.Context, s *record.Store) { _ = record.DeleteAttempts(ctx, s, ids) },
	"FirstRows":           func(ctx context.Context, s *record.Store) { _, _ = s.FirstRows(ctx, 500) },
	"LastID":              func(ctx context.Context, s *record.Store) { _, _ = s.LastID(ctx) },
	"Span":                func(ctx context.Context, s *record.Store) { _, _, _ = s.Span(ctx) },
	"OtherTypes":          func(ctx context.Context, s *record.Store) { _, _ = s.OtherTypes(ctx, []int32{7, -8, 8}, 100) },
	"NameTypes": func(ctx context.Context, s *record.Store) {
		_, _ = s.NameTypes(ctx, []record.TypeName{{JobType: 7, Name: "mail"}, {JobType: 8, Name: "export"}})
	},
	"RenameType": func(ctx context.Context, s *record.Store) { _, _ = s.RenameType(ctx, 7, "mail", "letter") },
	"WriteSettings": func(ctx context.Context, s *record.Store) {
		_ = s.WriteSettings(ctx, []record.TypeSettings{{JobType: 7, Settings: "{}"}, {JobType: 8, Settings: "{}"}})
	},
	"WriteLines": func(ctx context.Context, s *record.Store) {
		_ = s.WriteLines(ctx, []store.Line{{Lease: "job-7", Term: 3}, {Lease: "job-8/1", Term: 4, LineState: store.LineState{Running: 2}}})
	},
	"IDs": func(ctx context.Context, s *record.Store) {
		for _, f := range []record.Filter{{Types: []int32{7}, Statuses: []int32{0, 4}}, {Statuses: []int32{2}}, {Key: "order 4711"}} {
			_, _ = s.IDs(ctx, f, 100)
		}
	},
	"NextIDs": func(ctx context.Context, s *record.Store) {
		for _, f := range []record.Filter{{Types: []int32{7}, Statuses: []int32{0, 4}, After: 3, Before: 9}, {Key: "order 4711", After: 3, Before: 9}} {
			_, _ = s.NextIDs(ctx, f, 100)
		}
	},
	"CountLate": func(ctx context.Context, s *record.Store) {
		_, _, _ = s.CountLate(ctx, []int32{7, 8}, 1000, 100, map[int32][]int64{7: {41, 40}, 8: {3}})
	},
	"BesideJob": func(ctx context.Context, s *record.Store) { _, _ = s.BesideJob(ctx, 4, 7, "job-7") },
	"Lines":     func(ctx context.Context, s *record.Store) { _, _ = s.Lines(ctx) },
	"DropLines": func(ctx context.Context, s *record.Store) { _ = s.DropLines(ctx, 1000) },
	"NoteAct": func(ctx context.Context, s *record.Store) {
		_, _ = s.NoteAct(ctx, &record.Act{Actor: "mary", Verb: "cancel", Why: "a mistake", Jobs: []uint64{4, 5}, Detail: "{}", Changed: 2, Progress: record.Progress{Operation: 3}})
	},
	"Acts": func(ctx context.Context, s *record.Store) {
		_, _ = s.Acts(ctx, record.ActFilter{Job: 4, Types: []int32{7}, Actor: "mary", Operation: 3, Before: 9}, 100)
	},
	"Operations": func(ctx context.Context, s *record.Store) {
		_, _ = s.Operations(ctx, record.ActFilter{ID: 3, Open: true}, 100)
	},
	"LockState": func(ctx context.Context, s *record.Store) { _, _ = s.LockState(ctx, ids, store.Waiting) },
	"LockMatching": func(ctx context.Context, s *record.Store) {
		_, _ = s.LockMatching(ctx, ids, record.Filter{Types: []int32{7}, Statuses: []int32{0, 4}, Key: "a", DueTo: 9}, store.Waiting)
	},
	"InOneTransaction": func(ctx context.Context, s *record.Store) {
		_ = s.InOneTransaction(ctx, func(s *record.Store) error { return s.DropEnded(ctx, []string{"at-000000000000"}) })
	},
	"ClaimOperation":   func(ctx context.Context, s *record.Store) { _, _ = s.ClaimOperation(ctx, 3, "me", 15) },
	"AdvanceOperation": func(ctx context.Context, s *record.Store) { _, _ = s.AdvanceOperation(ctx, 3, "me", 0, 500) },
	"CountOperation": func(ctx context.Context, s *record.Store) {
		_ = s.CountOperation(ctx, 3, 400, 100, record.OperationDone)
	},
	"SetOperation": func(ctx context.Context, s *record.Store) {
		_, _ = s.SetOperation(ctx, 3, record.OperationOpen, record.OperationStopped)
	},
	"DeleteEnded": func(ctx context.Context, s *record.Store) { _, _ = s.DeleteEnded(ctx, ids) },

	"PastOfJob": func(ctx context.Context, s *record.Store) {
		_, _ = s.PastOfJob(ctx, record.OfPast{ID: 4, Created: 1000, Lease: "job-7", Term: 3, Acts: 50})
	},
	"PastOfJob, without a term": func(ctx context.Context, s *record.Store) {
		_, _ = s.PastOfJob(ctx, record.OfPast{ID: 4, Created: 1000, Lease: "job-7", Acts: 50})
	},
	"WriteStats": func(ctx context.Context, s *record.Store) {
		state := record.StatState{Runs: map[string]int64{"success": 2}, Delay: []int64{1, 2}, Took: []int64{0, 2}}
		_ = s.WriteStats(ctx, []record.Stat{{JobType: 7, Begin: 60, Lease: "job-7", Term: 3, Seconds: 60, StatState: state}, {JobType: 8, Begin: 60, Lease: "job-8/1", Term: 4, Seconds: 60}})
	},
	"EachStat": func(ctx context.Context, s *record.Store) {
		_ = s.EachStat(ctx, []int32{7, 8}, 1000, 2000, func(*record.Stat) {})
	},
	"Events":       func(ctx context.Context, s *record.Store) { _, _ = s.Events(ctx, 1_000_000, 2000, 20) },
	"Errors":       func(ctx context.Context, s *record.Store) { _, _ = s.Errors(ctx, []int32{7, 8}, 1000, 500) },
	"Stats":        func(ctx context.Context, s *record.Store) { _, _ = s.Stats(ctx, 7, 1000, 2000) },
	"RollUp":       func(ctx context.Context, s *record.Store) { _, _, _ = s.RollUp(ctx, 7, 1000, 9000, 3600) },
	"RollUp, rows": func(ctx context.Context, s *record.Store) { _ = record.SumUp(ctx, s, 7, 3600, 3600) },
	"DropStats":    func(ctx context.Context, s *record.Store) { _ = s.DropStats(ctx, 7, 1000) },
	"TypesKnown":   func(ctx context.Context, s *record.Store) { _, _ = s.TypesKnown(ctx) },
	"WriteTenures": func(ctx context.Context, s *record.Store) {
		_ = s.WriteTenures(ctx, []record.Tenure{{Lease: "job-7", Term: 3, Owner: "me", Taken: 1000}, {Lease: "job-8/1", Term: 4, Owner: "me", Taken: 1000, Ended: 2000, How: record.Released}})
	},
	"ExpireTenures": func(ctx context.Context, s *record.Store) {
		_ = s.ExpireTenures(ctx, []record.Tenure{{Lease: "job-7", Term: 3, Taken: 1000}, {Lease: "job-8/1", Term: 4, Taken: 2000}})
	},
	"Tenures": func(ctx context.Context, s *record.Store) {
		_, _ = s.Tenures(ctx, record.TenureFilter{From: 1000, Before: 2000, Most: 100})
	},
	"Tenures of": func(ctx context.Context, s *record.Store) {
		_, _ = s.Tenures(ctx, record.TenureFilter{Types: []int32{7}, From: 1000, Before: 2000, Most: 100})
	},
	"Tenures of the buried": func(ctx context.Context, s *record.Store) {
		_, _ = s.Tenures(ctx, record.TenureFilter{Buried: []string{"0123456789ab", "ba9876543210"}, From: 1000, Before: 2000, Most: 100})
	},
	"DropTenures":      func(ctx context.Context, s *record.Store) { _ = s.DropTenures(ctx, 1000) },
	"HaveWork":         func(ctx context.Context, s *record.Store) { _, _ = s.HaveWork(ctx, []int32{7, 8}) },
	"HaveWork, of all": func(ctx context.Context, s *record.Store) { _, _ = s.HaveWork(ctx, nil) },
	"LayDown":          func(ctx context.Context, s *record.Store) { _ = s.LayDown(ctx, "job-7", "me") },
	"Wake":             func(ctx context.Context, s *record.Store) { _ = s.Wake(ctx, []string{"job-7", "job-8"}) },
	"KnownTypes":       func(ctx context.Context, s *record.Store) { _, _ = s.KnownTypes(ctx) },
	"TypeNames":        func(ctx context.Context, s *record.Store) { _, _ = s.TypeNames(ctx, []int32{7, 8}) },
	"TypeLeases":       func(ctx context.Context, s *record.Store) { _, _ = s.TypeLeases(ctx, 3600) },
	"FinishThrough": func(ctx context.Context, s *record.Store) {
		_, _ = s.FinishThrough(ctx, s.Handle().(conn.Handle), 1, 9, 2, store.End{Status: 1})
	},
	"RecordStep": func(ctx context.Context, s *record.Store) { _, _ = s.RecordStep(ctx, aStep) },
	"RecordStepThrough": func(ctx context.Context, s *record.Store) {
		_, _ = s.RecordStepThrough(ctx, s.Handle().(conn.Handle), aStep)
	},
	"StepsOf":        func(ctx context.Context, s *record.Store) { _, _ = s.StepsOf(ctx, ids) },
	"StepsAndLogsOf": func(ctx context.Context, s *record.Store) { _, _ = s.StepsAndLogsOf(ctx, ids) },
	"LogsOf":         func(ctx context.Context, s *record.Store) { _, _ = s.LogsOf(ctx, 1) },
	"KeepLogs": func(ctx context.Context, s *record.Store) {
		_ = s.KeepLogs(ctx, []store.Step{{JobID: 1, Kind: store.StepLog, Name: "12/8", Created: 1000, Attempt: 12, Term: 8, Ended: 5, Value: `"a line"`}}, 10)
	},
	"AddFlow": func(ctx context.Context, s *record.Store) {
		_, _, _ = s.AddFlow(ctx, &store.Flow{Kind: "order", Key: "4711", Nodes: 2, Alarms: 1, UndoAfter: 60, Deadline: 3600})
	},
	"AddNodes": func(ctx context.Context, s *record.Store) {
		_ = s.AddNodes(ctx, []store.Node{{ID: aNode, Name: "pay", State: store.NodeBorn, JobID: 7, Born: 1000, Followers: []int{1, 2, 3, 5}, Job: newJobs[0], Undo: &newJobs[0]}, {ID: aNode + 1, Kind: store.NodeEnd, Waits: 1}})
	},
	"Flows": func(ctx context.Context, s *record.Store) {
		_, _ = s.Flows(ctx, store.FlowsThat{Kind: "order", Key: "4711", States: []int16{1, 2}, Before: 9}, 100)
	},
	"Flows, by id": func(ctx context.Context, s *record.Store) { _, _ = s.Flows(ctx, store.FlowsThat{IDs: ids}, 100) },
	"Flows, open": func(ctx context.Context, s *record.Store) {
		_, _ = s.Flows(ctx, store.FlowsThat{States: []int16{store.FlowOpen}}, 100)
	},
	"Flows, stuck": func(ctx context.Context, s *record.Store) { _, _ = s.Flows(ctx, store.FlowsThat{Stuck: true}, 100) },
	"FlowsStand":   func(ctx context.Context, s *record.Store) { _, _ = s.FlowsStand(ctx, ids) },
	"CountFlows":   func(ctx context.Context, s *record.Store) { _, _ = s.CountFlows(ctx) },
	"NodeInFlow":   func(ctx context.Context, s *record.Store) { _, _, _ = s.NodeInFlow(ctx, aNode) },
	"NodesOf":      func(ctx context.Context, s *record.Store) { _, _ = s.NodesOf(ctx, 3) },
	"NodesNamed":   func(ctx context.Context, s *record.Store) { _, _ = s.NodesNamed(ctx, nil, []uint64{aNode}, "pay") },
	"AnyFlow":      func(ctx context.Context, s *record.Store) { _, _ = s.AnyFlow(ctx) },
	"LookAtNodes":  func(ctx context.Context, s *record.Store) { _, _ = s.LookAtNodes(ctx, 5, 1000) },
	"CountEnds": func(ctx context.Context, s *record.Store) {
		_, _ = s.CountEnds(ctx, []uint64{aNode, aNode + 1}, false, 500)
	},
	"CountEnds, rows":   func(ctx context.Context, s *record.Store) { store.CountRows(&s.Store, ctx, aNode) },
	"BearNodes":         func(ctx context.Context, s *record.Store) { _, _ = s.BearNodes(ctx, []uint64{aNode}) },
	"BearNow":           func(ctx context.Context, s *record.Store) { _, _ = s.BearNow(ctx, []uint64{aNode}) },
	"BearNodes, rows":   func(ctx context.Context, s *record.Store) { store.BearRows(&s.Store, ctx, aNode, newJobs[0]) },
	"TendFlow":          func(ctx context.Context, s *record.Store) { _, _ = s.TendFlow(ctx, 3) },
	"TendFlow, rows":    func(ctx context.Context, s *record.Store) { store.TendRows(&s.Store, ctx, 3) },
	"SignalNode":        func(ctx context.Context, s *record.Store) { _, _ = s.SignalNode(ctx, 3, "approved", "yes") },
	"SignalNode, rows":  func(ctx context.Context, s *record.Store) { _, _ = store.SignalRow(&s.Store, ctx, aNode) },
	"StopFlow":          func(ctx context.Context, s *record.Store) { _, _ = s.StopFlow(ctx, 3) },
	"Undone":            func(ctx context.Context, s *record.Store) { _, _ = s.Undone(ctx, ids) },
	"DeleteFlows":       func(ctx context.Context, s *record.Store) { _, _ = s.DeleteFlows(ctx, store.FlowEnds, 1000, 100) },
	"DeleteFlows, rows": func(ctx context.Context, s *record.Store) { store.DeleteFlowRows(&s.Store, ctx, 3) },
	"RefuseNode":        func(ctx context.Context, s *record.Store) { _ = s.RefuseNode(ctx, aNode, "not this type") },
	"CancelFlow":        func(ctx context.Context, s *record.Store) { _, _ = s.CancelFlow(ctx, 3) },
	"LiveJobs": func(ctx context.Context, s *record.Store) {
		_, _ = s.LiveJobs(ctx, &store.Flow{ID: 3, Nodes: 2}, aNode, 1000, false)
	},
	"LiveJobs, held": func(ctx context.Context, s *record.Store) {
		_, _ = s.LiveJobs(ctx, &store.Flow{ID: 3, Nodes: 2}, 0, 1000, true)
	},
	"TheirJobs": func(ctx context.Context, s *record.Store) {
		_, _ = s.TheirJobs(ctx, []store.NodeJob{{Node: aNode, Job: 7, Born: 1000}})
	},
	"ReopenFlow": func(ctx context.Context, s *record.Store) {
		_, _, _, _ = s.ReopenFlow(ctx, &store.Flow{ID: 3, Key: "4711", Nodes: 2, UndoAfter: store.NotUndone})
	},
	"StepsOfRun": func(ctx context.Context, s *record.Store) { _, _ = s.StepsOfRun(ctx, nil, 1) },
	"RestoreSteps": func(ctx context.Context, s *record.Store) {
		_ = s.RestoreSteps(ctx, []store.Step{aStep, {JobID: 2, Kind: store.StepSleep, Name: "until", Created: 1000, Attempt: 1, Term: 8, Ended: 5, Until: 9}})
	},
	"Signal":      func(ctx context.Context, s *record.Store) { _, _ = s.Signal(ctx, aStep) },
	"EndWait":     func(ctx context.Context, s *record.Store) { _, _ = s.EndWait(ctx, aStep) },
	"ForgetSteps": func(ctx context.Context, s *record.Store) { _ = s.ForgetSteps(ctx, ids) },
	"DeleteSteps": func(ctx context.Context, s *record.Store) { _ = s.DeleteSteps(ctx, ids) },
	"ForgetStray": func(ctx context.Context, s *record.Store) { _ = s.ForgetStray(ctx, 1, 1000) },
	"Progress":    func(ctx context.Context, s *record.Store) { _, _ = s.Progress(ctx, 1) },
	"Paused":      func(ctx context.Context, s *record.Store) { _, _ = s.Paused(ctx) },
	"SetProgress": func(ctx context.Context, s *record.Store) { _, _ = s.SetProgress(ctx, 1, 9, 2, "half way") },
	"SetResult":   func(ctx context.Context, s *record.Store) { _, _ = s.SetResult(ctx, 1, 9, 2, "done") },
	"Standings":   func(ctx context.Context, s *record.Store) { _, _ = s.Standings(ctx, ids) },
	"Settle":      func(ctx context.Context, s *record.Store) { _, _ = s.Settle(ctx, ids, store.Final{9, 2, 1}) },
	"FirstOfKeys": func(ctx context.Context, s *record.Store) {
		_, _ = s.FirstOfKeys(ctx, 7, []string{"a", "b", "c", "d"}, 3, 1000, 5)
	},
	"GivenUpJobs": func(ctx context.Context, s *record.Store) { _, _ = s.GivenUpJobs(ctx, 7, true, 1, 2, 3, 100) },
	"InState":     func(ctx context.Context, s *record.Store) { _, _ = s.InState(ctx, ids, store.InFlight) },
	"Indexes": func(ctx context.Context, s *record.Store) {
		_, _ = s.Indexes(ctx, []string{s.Tables.Jobs, s.Tables.Leases})
	},
	"JobsOfKey":  func(ctx context.Context, s *record.Store) { _, _ = s.JobsOfKey(ctx, 7, "a", store.Pending) },
	"KeepLeases": func(ctx context.Context, s *record.Store) { _, _ = s.KeepLeases(ctx, leases, []string{"me"}, 10, nil) },
	"KeepLeases and numbers": func(ctx context.Context, s *record.Store) {
		_, _ = s.KeepLeases(ctx, leases, []string{"me"}, 10, map[string]int{"b": 3, "a": 2})
	},
	"List, states": func(ctx context.Context, s *record.Store) {
		kinds := []record.Kind{
			{Statuses: []int32{0}, Mark: record.Unmarked, Due: record.DueNow},
			{Statuses: []int32{0}, Mark: record.Unmarked, Due: record.DueLater}, {Statuses: []int32{0, 3, 4}, Mark: record.Marked}, {Statuses: []int32{1}}}
		_, _ = s.List(ctx, record.Filter{Types: []int32{7}, Kinds: kinds, OmitLong: true, Before: 9}, 10)
	},
	"List": func(ctx context.Context, s *record.Store) {
		_, _ = s.List(ctx, record.Filter{IDs: ids, Types: []int32{7}, Statuses: []int32{0}, Key: "a", DueTo: 9, Before: 9}, 10)
	},
	"StillPending": func(ctx context.Context, s *record.Store) { _, _ = s.StillPending(ctx, ids) },
	"RunningOfKeys": func(ctx context.Context, s *record.Store) {
		_, _ = s.RunningOfKeys(ctx, 7, []string{"a", "b", "c"}, []int64{8, 9})
	},
	"EarlierOfGroup": func(ctx context.Context, s *record.Store) { _, _ = s.EarlierOfGroup(ctx, 7, "a", 9) },
	"WriteRestRuns": func(ctx context.Context, s *record.Store) {
		_ = s.WriteRestRuns(ctx, "rest-7-64", 2, 1, store.Runs{Jobs: []uint64{5, 6}, Keys: []string{"a", "b", "a"}})
	},
	"RestRuns": func(ctx context.Context, s *record.Store) {
		_, _ = s.RestRuns(ctx, []string{"rest-7-64", "rest-7/1-65"})
	},
	"DropRestRuns": func(ctx context.Context, s *record.Store) { _ = s.DropRestRuns(ctx, "rest-7-64", 2) },
	"Fleet":        func(ctx context.Context, s *record.Store) { _, _ = s.Fleet(ctx, []string{"job-", "at-"}) },
	"MoveLease":    func(ctx context.Context, s *record.Store) { _ = s.MoveLease(ctx, "a", "me", 9, 1028, 10, 3) },
	"Layout":       func(ctx context.Context, s *record.Store) { _, _ = s.Layout(ctx, 7) },
	"SetLayout":    func(ctx context.Context, s *record.Store) { _, _ = s.SetLayout(ctx, 7, 1026, 2052) },
	"MakeClosed":   func(ctx context.Context, s *record.Store) { _ = s.MakeClosed(ctx, leases, 1028) },
	"CloseLeases":  func(ctx context.Context, s *record.Store) { _ = s.CloseLeases(ctx, leases, 1028) },
	"CloseLease":   func(ctx context.Context, s *record.Store) { _ = s.CloseLease(ctx, "a", "me", 1028) },
	"OpenLeases":   func(ctx context.Context, s *record.Store) { _ = s.OpenLeases(ctx, leases, 1028, 9) },
	"Holdings":     func(ctx context.Context, s *record.Store) { _, _, _ = s.Holdings(ctx, []string{"job-", "at-"}) },
	"NoteRunning":  func(ctx context.Context, s *record.Store) { _ = s.NoteRunning(ctx, "a", "me", 10, 3) },
	"DropLease":    func(ctx context.Context, s *record.Store) { _ = s.DropLease(ctx, "a", "me") },
	"EndedLeases":  func(ctx context.Context, s *record.Store) { _, _ = s.EndedLeases(ctx, []string{"at-"}) },
	"DropEnded":    func(ctx context.Context, s *record.Store) { _ = s.DropEnded(ctx, leases) },
	"Look":         func(ctx context.Context, s *record.Store) { _ = s.Look(ctx) },
	"LogAttempts":  func(ctx context.Context, s *record.Store) { _ = s.LogAttempts(ctx, make([]store.Attempt, 3)) },
	"MakeLeases":   func(ctx context.Context, s *record.Store) { _ = s.MakeLeases(ctx, leases) },
	"Mark": func(ctx context.Context, s *record.Store) {
		_, _ = s.Mark(ctx, ids, 1_700_000_000, store.Version{Attempts: 1, Changes: 1}, 9, 1_800_000_000_500)
	},
	"Mark Lost": func(ctx context.Context, s *record.Store) {
		_, _ = s.Mark(ctx, ids, 1_700_000_000, store.Version{Term: 8, Attempts: 1, Changes: 1}, 9, 1_800_000_000_500)
	},
	"MarkedRows":    func(ctx context.Context, s *record.Store) { _, _ = s.MarkedRows(ctx, ids, 9) },
	"Unlocked":      func(ctx context.Context, s *record.Store) { _, _ = s.Unlocked(ctx, ids) },
	"LongParams":    func(ctx context.Context, s *record.Store) { _, _ = s.LongParams(ctx, ids, 9) },
	"Newest":        func(ctx context.Context, s *record.Store) { _, _, _ = s.Newest(ctx) },
	"Page":          func(ctx context.Context, s *record.Store) { _, _ = s.Page(ctx, 7, store.Shard{}, places(), 3, 100) },
	"Pause":         func(ctx context.Context, s *record.Store) { _, _ = s.Pause(ctx, 7) },
	"PauseUntil":    func(ctx context.Context, s *record.Store) { _, _ = s.PauseUntil(ctx, 7, 1_700_000_000) },
	"EndPauses":     func(ctx context.Context, s *record.Store) { _, _ = s.EndPauses(ctx, []int32{7, 8}) },
	"PausedTypes":   func(ctx context.Context, s *record.Store) { _, _ = s.PausedTypes(ctx) },
	"AbandonLeases": func(ctx context.Context, s *record.Store) { _ = s.AbandonLeases(ctx, leases, "me") },
	"ReleaseLease":  func(ctx context.Context, s *record.Store) { _, _ = s.ReleaseLease(ctx, "a", "me", time.Minute) },
	"Rise":          func(ctx context.Context, s *record.Store) { _ = s.Rise(ctx, "live-1", "me", 41, 2500, 10) },
	"Beat":          func(ctx context.Context, s *record.Store) { _, _ = s.Beat(ctx, "live-1", "me", 42, 2500, 10) },
	"Bury":          func(ctx context.Context, s *record.Store) { _, _ = s.Bury(ctx, "live-1", "me", 9, 30) },
	"BuryDead": func(ctx context.Context, s *record.Store) {
		_, _ = s.BuryDead(ctx, "live-1", "me", 9, 30, false)
		_, _ = s.BuryDead(ctx, "live-1", "me", 9, 30, true)
	},
	"CopyLeases": func(ctx context.Context, s *record.Store) {
		_ = s.CopyLeases(ctx, []store.Copy{
			{Seen: store.Seen{Name: "a", Owner: "me", Term: 9, Running: 3, Layout: 1, Until: 1_700_000_000_000_000}, Rest: "rest-a-9"},
			{Seen: store.Seen{Name: "b", Owner: "you", Term: 8, Running: 1, Layout: 1028, Until: 1_700_000_001_500_000}, Rest: "rest-b-8"},
		})
	},
	"FreeLeases": func(ctx context.Context, s *record.Store) { _ = s.FreeLeases(ctx, leases, []string{"me", "you"}) },
	"BreakLease": func(ctx context.Context, s *record.Store) { _, _ = s.BreakLease(ctx, "a", "me") },
	"Reschedule": func(ctx context.Context, s *record.Store) { _, _ = s.Reschedule(ctx, ids, 1_700_000_000) },
	"Resume":     func(ctx context.Context, s *record.Store) { _, _ = s.Resume(ctx, 7) },
	"SetLimits": func(ctx context.Context, s *record.Store) {
		_, _ = s.SetLimits(ctx, 7, store.Limits{Workers: 3, Rate: 2.5})
	},
	"Retry":           func(ctx context.Context, s *record.Store) { _, _, _ = s.Retry(ctx, ids) },
	"RetryWith":       func(ctx context.Context, s *record.Store) { _, _, _ = s.RetryWith(ctx, ids, "{}") },
	"SeeLeases":       func(ctx context.Context, s *record.Store) { _, _ = s.SeeLeases(ctx, leases) },
	"SetParams":       func(ctx context.Context, s *record.Store) { _, _ = s.SetParams(ctx, ids, "{}") },
	"SetPriority":     func(ctx context.Context, s *record.Store) { _, _ = s.SetPriority(ctx, ids, 2) },
	"SweepAll":        func(ctx context.Context, s *record.Store) { _, _, _ = s.SweepAll(ctx, []int32{7, -8}, 3, 100) },
	"Tail":            func(ctx context.Context, s *record.Store) { _, _ = s.Tail(ctx, 5, []store.Gap{{1, 2}}, wanted, 3, 100) },
	"Tail Taken":      func(ctx context.Context, s *record.Store) { _, _ = s.Tail(ctx, 5, []store.Gap{{1, 2}}, nil, 3, 100) },
	"ClampPriorities": func(ctx context.Context, s *record.Store) { _ = s.ClampPriorities(ctx, []int32{7}) },
	"TakeLeases":      func(ctx context.Context, s *record.Store) { _, _ = s.TakeLeases(ctx, leases, "me", 1, 10, false) },
}

// outcomes are the outcomes that Settle writes besides Final.
var outcomes = map[string]store.Outcome{
	"Again":      store.Again{9, 2, 3, 1.5, 1, 1, false, 0},
	"Awaiting":   store.Again{9, 2, 3, 1.5, 0, 0, true, 4},
	"NotStarted": store.NotStarted{store.Version{9, 2, 1}},
	"Died":       store.Died{Read: store.Version{Term: 8, Attempts: 3}, Term: 9, LostBefore: 2},
}

func init() {
	for name, o := range outcomes {
		verbs["Settle "+name] = func(ctx context.Context, s *record.Store) { _, _ = s.Settle(ctx, ids, o) }
	}
}

var (
	ids, leases = []uint64{1, 2}, []string{"a", "b"}
	newJobs     = []store.NewJob{{Params: "{}", JobType: 7, MaxRetries: store.NotSet}, {Params: "{}", JobType: 7, Delay: 1500, Key: "a", Unique: true, Takes: store.TakesFinal, MaxRetries: 3, Meta: `{"a":"b"}`, Group: "g"}}
	aStep       = store.Step{JobID: 1, Name: "charge", Created: 1000, Attempt: 2, Term: 9, Ended: 1_700_000_000_000, Value: `"x"`}
	another     = store.NewJob{Params: "{}", JobType: 7, Priority: 1, Key: "b", Unique: true, Takes: store.TakesFinal, MaxRetries: store.NotSet}
	long        = store.NewJob{Params: strings.Repeat("x", store.ParamsMax+1), JobType: 7, MaxRetries: store.NotSet}
	archived    = []record.Listed{
		{Row: store.Row{ID: 4, Params: "{}", JobType: 7, Status: 1, CreateTime: 1000, MaxRetries: store.NotSet}, UpdateTime: 1001},
		{Row: store.Row{ID: 5, Params: long.Params, JobType: 7, Status: 2, MaxRetries: 3, Key: "a", Extra: &store.Extra{Meta: "{}", Group: "b"}}, Progress: "half", Result: "done"},
	}
	timed  = record.Schedule{Name: "nightly", Spec: "0 3 * * *", JobType: 7, Params: "{}", CatchUp: 1, Revision: 3, Reached: 1_700_000_000}
	wanted = []store.Wanted{{From: -1, Types: []int32{7}}, {From: 1, Types: []int32{8}}}
)

func places() (list []store.Place) {
	for _, lane := range store.Lanes() {
		list = append(list, store.Place{Lane: lane})
	}
	return list
}

type statement struct {
	text string
	args []any
}

// recorder notes every statement, and answers that nothing was changed or found. It lends no connections.
type recorder struct {
	conn.DB
	pool *sql.DB
	sent []statement
}

func recording(t *testing.T) *recorder {
	pool := sql.OpenDB(emptyTables{})
	t.Cleanup(func() { pool.Close() })
	return &recorder{pool: pool}
}

// emptyTables is a database in which a count is 0, and another read finds nothing.
type emptyTables struct{}

func (e emptyTables) Connect(context.Context) (driver.Conn, error) { return e, nil }
func (emptyTables) Driver() driver.Driver                          { return nil }
func (emptyTables) Prepare(string) (driver.Stmt, error)            { return nil, errors.ErrUnsupported }
func (emptyTables) Begin() (driver.Tx, error)                      { return nil, errors.ErrUnsupported }
func (emptyTables) Close() error                                   { return nil }

func (emptyTables) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	return &zero{there: strings.HasPrefix(query, "SELECT COUNT(*)")}, nil
}

type zero struct{ there bool }

func (*zero) Columns() []string { return []string{"column"} }
func (*zero) Close() error      { return nil }

func (z *zero) Next(row []driver.Value) error {
	if !z.there {
		return io.EOF
	}
	z.there, row[0] = false, int64(0)
	return nil
}

func (r *recorder) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	r.sent = append(r.sent, statement{query, args})
	return driver.RowsAffected(0), nil
}

func (r *recorder) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	r.sent = append(r.sent, statement{query, args})
	return r.pool.QueryContext(ctx, query)
}

func storeOn(db conn.DB, d conn.Dialect, prefix string) *record.Store {
	return &record.Store{Store: store.Store{Sender: conn.On(db, d, prefix)}}
}

func sentBy(t *testing.T, d conn.Dialect, verb func(context.Context, *record.Store)) []statement {
	t.Helper()
	r := recording(t)
	verb(t.Context(), storeOn(r, d, ""))
	return r.sent
}

func TestEveryVerbsStatementsAreLookedAtHere(t *testing.T) {
	send := reflect.TypeFor[*record.Store]()
	for i := range send.NumMethod() {
		m := send.Method(i)
		takesContext := m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]()
		if takesContext && verbs[m.Name] == nil {
			t.Errorf("%s sends statements, and is not in the list", m.Name)
		}
	}
	for name, verb := range verbs {
		for _, d := range []conn.Dialect{conn.MySQL, conn.MariaDB, conn.TiDB, conn.PostgreSQL, conn.SQLite} {
			if len(sentBy(t, d, verb)) == 0 && !(name == "Sickness" && d.Sickness == "") { // of which some databases say nothing
				t.Errorf("%s sends nothing to %s", name, d.Name)
			}
		}
	}
}

func TestTheStatementsRunOnMySQL57(t *testing.T) {
	tooNew := regexp.MustCompile(`(?i)\bSKIP\s+LOCKED\b|\bNOWAIT\b|\bOVER\s*\(|\bWITH\b|\bJSON\w*|->|\bRETURNING\b|\bLATERAL\b|\bEXCEPT\b|\bINTERSECT\b|\)\s*AS\s+new\b|FULL\s+OUTER`)
	forLater := regexp.MustCompile(`/\*!8\d{4} .*?\*/|/\*M!.*?\*/`) // the server reads over that
	for name, verb := range verbs {
		for _, s := range sentBy(t, conn.MySQL, verb) {
			s.text = forLater.ReplaceAllString(s.text, "")
			if found := tooNew.FindString(s.text); found != "" {
				t.Errorf("%s says %q: %s", name, found, s.text)
			}
		}
	}
}

// A session with sql_safe_updates refuses a statement that does not go by an index, in the optimizer's opinion.
func TestNoStatementIsRefusedBySafeUpdates(t *testing.T) {
	changes := regexp.MustCompile(`\b(DELETE|UPDATE /\*|UPDATE [^/]* SET )`)
	goesBy := regexp.MustCompile(`UPDATE \w+ FORCE INDEX \(PRIMARY\)|UPDATE /\*[^/]*\*/ \w+ FORCE INDEX \(PRIMARY\)|WHERE (job_type|id) = \S+( AND|$)|^INSERT |SELECT `)
	for name, verb := range verbs {
		for _, s := range append(sentBy(t, conn.MySQL, verb), sentBy(t, conn.MariaDB, verb)...) {
			if changes.MatchString(s.text) && !strings.Contains(s.text, "sql_safe_updates=0") && (strings.Contains(s.text, "DELETE") || !goesBy.MatchString(s.text)) {
				t.Errorf("%s may be refused: %s", name, s.text)
			}
		}
	}
}

// What a replica would find out for itself, if it is sent statements: the two would differ from then on.
func TestNoStatementThatReplicasAreSentAsksForLocksOrTheTimeByThen(t *testing.T) {
	reads := regexp.MustCompile(`^\(?(SELECT|WITH)\b`)
	unsafe := regexp.MustCompile(`SKIP LOCKED|NOWAIT|SYSDATE|\bLIMIT\b|RAND\(|UUID\(|LAST_INSERT_ID`)
	for name, verb := range verbs {
		for _, d := range []conn.Dialect{conn.MySQL.ForStatements(), conn.MariaDB.ForStatements()} {
			d.AsksFirst = false // the answer would be that none is free
			for _, s := range sentBy(t, d, verb) {
				if found := unsafe.FindString(s.text); found != "" && !reads.MatchString(s.text) {
					t.Errorf("%s to %s says %q: %s", name, d.Name, found, s.text)
				}
			}
		}
	}
	for _, name := range []string{"Mark", "TakeLeases", "KeepLeases", "Bury", "BuryDead", "FreeLeases"} {
		if sent := sentBy(t, conn.MySQL.ForStatements(), verbs[name]); !strings.HasSuffix(sent[0].text, " FOR UPDATE"+conn.PassingLocked) {
			t.Errorf("%s does not ask first which rows are locked: %s", name, sent[0].text)
		}
	}
}

// A Galera cluster with wsrep_max_ws_rows refuses an UPDATE of several tables, if one of them is derived.
func TestMariaDBIsSentNoUpdateWithADerivedTable(t *testing.T) {
	comment := regexp.MustCompile(`/\*.*?\*/`)
	for name, verb := range verbs {
		for _, s := range append(sentBy(t, conn.MariaDB, verb), sentBy(t, conn.MariaDB.ForStatements(), verb)...) {
			tables, _, isUpdate := strings.Cut(comment.ReplaceAllString(s.text, ""), " SET ")
			if isUpdate && strings.Contains(tables, "UPDATE") && strings.Contains(tables, "SELECT") {
				t.Errorf("%s: %s", name, s.text)
			}
		}
	}
}

// TiDB takes INTERVAL ( for the beginning of a function, and refuses what comes then, even after a sign.
func TestTiDBIsSentNoIntervalInParentheses(t *testing.T) {
	for name, verb := range verbs {
		for _, s := range sentBy(t, conn.TiDB, verb) {
			if strings.Contains(s.text, "INTERVAL (") {
				t.Errorf("%s: %s", name, s.text)
			}
		}
	}
}

func TestABatchIsOneStatementWithoutArguments(t *testing.T) {
	for _, name := range []string{"Mark", "Mark Lost", "MarkedRows", "Unlocked", "LongParams", "Settle NotStarted", "Settle", "Settle Again", "Settle Died", "Standings", "Paused", "Tail", "Tail Taken", "SweepAll", "Page", "Newest"} {
		sent := sentBy(t, conn.MySQL, verbs[name])
		if len(sent) != 1 || len(sent[0].args) != 0 {
			t.Errorf("%s sends %d statements; arguments %v cost it two round trips more", name, len(sent), sent[0].args)
		}
	}
}

func TestWhatADecisionHangsOnIsReadFromThePrimary(t *testing.T) {
	// ProxySQL's usual rule, and what GORM's dbresolver looks for; the others parse.
	usual := regexp.MustCompile(`^SELECT.*FOR UPDATE$`)
	for _, name := range []string{"SeeLeases", "TakeLeases", "KeepLeases", "ReleaseLease", "AbandonLeases", "Beat", "MarkedRows", "LongParams", "Standings", "Paused", "Schedule", "NameTypes", "WriteSettings", "DropLines", "RollUp", "Operations", "ClaimOperation", "FirstOfKeys", "RunningOfKeys", "RestRuns", "Fleet", "Layout", "EndedLeases", "MoveLease",
		"JobsOfKey", "InState", "Look", "GivenUpJobs", "NextIDs", "LastID", "Retry", "AddUnlessThere", "AddJobsUnlessThere", "AddJobsUnlessThere, types", "ReplaceWaiting", "Columns", "Indexes"} {
		for _, d := range []conn.Dialect{conn.MySQL, conn.MariaDB, conn.PostgreSQL} { // TiDB has no primary
			for _, s := range sentBy(t, d, verbs[name]) {
				read := regexp.MustCompile(`^(SELECT|WITH)\b`).MatchString(s.text)
				if locking := strings.HasSuffix(s.text, " FOR UPDATE"); read && !(locking && (d.Name == "PostgreSQL" || usual.MatchString(s.text))) {
					t.Errorf("%s to %s is read from a replica: %s", name, d.Name, s.text)
				}
			}
		}
	}
}

func TestATimeBefore1970LimitsWhatIsRead(t *testing.T) {
	for _, verb := range []func(context.Context, *record.Store){
		func(ctx context.Context, s *record.Store) { _, _ = s.NextIDs(ctx, record.Filter{UpdatedTo: -5}, 9) },
		func(ctx context.Context, s *record.Store) { _, _ = s.Count(ctx, nil, nil, -5) },
	} {
		if text := sentBy(t, conn.MySQL, verb)[0].text; !strings.Contains(text, " < -5") {
			t.Error(text)
		}
	}
}

func TestAMarkCountsALossOnlyWhereAnEarlierTermStood(t *testing.T) {
	for earlier, counts := range map[int64]bool{0: false, 8: true} {
		text := sentBy(t, conn.MySQL, func(ctx context.Context, s *record.Store) {
			_, _ = s.Mark(ctx, ids, 1_700_000_000, store.Version{Term: earlier, Attempts: 1, Changes: 1}, 9, 1_800_000_000_500)
		})[0].text
		if got := strings.Contains(text, "lost"); got != counts || !strings.Contains(text, fmt.Sprintf("AND term = %d AND", earlier)) {
			t.Errorf("rows with term %d: %s", earlier, text)
		}
	}
}

func TestEveryOutcomeIsFencedByTheTermAndTheAttempt(t *testing.T) {
	for _, name := range []string{"Settle", "FinishThrough", "Settle Again", "Settle NotStarted", "SetProgress", "SetResult", "RecordStep", "RecordStepThrough", "EndWait"} {
		if text := sentBy(t, conn.MySQL, verbs[name])[0].text; !strings.Contains(text, "AND term = 9 AND attempts = 2 AND "+store.IsPending) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestAMarkIsForTheVersionThatWasRead(t *testing.T) {
	if text := sentBy(t, conn.MySQL, verbs["Mark"])[0].text; !strings.Contains(text, "AND term = 0 AND term < 9 AND attempts = 1 AND changes = 1 AND ") {
		t.Error(text)
	}
}

func TestALongLogIsWrittenInPieces(t *testing.T) {
	var written int
	for _, s := range sentBy(t, conn.MySQL, func(ctx context.Context, s *record.Store) { _ = s.LogAttempts(ctx, make([]store.Attempt, 450)) }) {
		if len(s.args) > 8*store.AttemptRowsMax || len(s.args) != strings.Count(s.text, "?") {
			t.Errorf("%d arguments for %d places", len(s.args), strings.Count(s.text, "?"))
		}
		written += len(s.args) / 8
	}
	if written != 450 {
		t.Errorf("%d of 450 attempts written", written)
	}
}

func TestToPostgreSQLAReadIsOneTextWhateverItsNumbers(t *testing.T) {
	other := map[string]func(context.Context, *record.Store){
		"MarkedRows": func(ctx context.Context, s *record.Store) { _, _ = s.MarkedRows(ctx, []uint64{7}, 10) },
		"LongParams": func(ctx context.Context, s *record.Store) { _, _ = s.LongParams(ctx, []uint64{7}, 10) },
		"Newest":     verbs["Newest"],
		"Standings":  func(ctx context.Context, s *record.Store) { _, _ = s.Standings(ctx, []uint64{7}) },
		"SweepAll":   func(ctx context.Context, s *record.Store) { _, _, _ = s.SweepAll(ctx, []int32{7, -8}, 3, 99) },
		"Tail":       func(ctx context.Context, s *record.Store) { _, _ = s.Tail(ctx, 6, []store.Gap{{3, 4}}, wanted, 3, 99) },
		"FirstOfKeys": func(ctx context.Context, s *record.Store) {
			_, _ = s.FirstOfKeys(ctx, -8, []string{"x", "y", "z"}, 4, 2000, 6)
		},
		"Tail with gaps": func(ctx context.Context, s *record.Store) {
			_, _ = s.Tail(ctx, 16, []store.Gap{{3, 4}, {6, 7}, {9, 9}, {11, 12}, {14, 14}}, wanted, 3, 99)
		},
		"Page": func(ctx context.Context, s *record.Store) {
			behind := places()
			for i := range behind {
				behind[i].ID, behind[i].StartTime = 5, 6
			}
			_, _ = s.Page(ctx, 7, store.Shard{}, behind, 3, 99)
		},
	}
	first := maps.Clone(verbs)
	first["Tail with gaps"] = func(ctx context.Context, s *record.Store) {
		_, _ = s.Tail(ctx, 8, []store.Gap{{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}, {7, 7}}, wanted, 3, 50)
	}
	for name, verb := range other {
		a, b := sentBy(t, conn.PostgreSQL, first[name]), sentBy(t, conn.PostgreSQL, verb)
		if len(a) != 1 || len(b) != 1 || a[0].text != b[0].text {
			t.Errorf("%s: a driver would prepare both\n%s\n%s", name, a[0].text, b[0].text)
		}
	}
}

func TestEveryPlaceHasItsArgumentAndOnlyPostgreSQLNumbersThem(t *testing.T) {
	for name, verb := range verbs {
		for _, d := range []conn.Dialect{conn.MySQL, conn.MariaDB, conn.TiDB, conn.PostgreSQL, conn.SQLite} {
			for _, s := range sentBy(t, d, verb) {
				dollars := len(regexp.MustCompile(`\$\d+`).FindAllString(s.text, -1))
				if places := strings.Count(s.text, "?") + dollars; places != len(s.args) || dollars > 0 && d.Name != "PostgreSQL" {
					t.Errorf("%s to %s: %d places for %d arguments: %s", name, d.Name, places, len(s.args), s.text)
				}
			}
		}
	}
}

func TestEveryStatementNamesTheTablesByTheirPrefix(t *testing.T) {
	for name, verb := range verbs {
		for _, d := range []conn.Dialect{conn.MySQL, conn.MariaDB, conn.TiDB, conn.PostgreSQL, conn.SQLite} {
			r := recording(t)
			verb(t.Context(), storeOn(r, d, "shop_"))
			for _, s := range r.sent {
				if bare := regexp.MustCompile(`\b(async_job_tab|shedlock_tab|async_job_log_tab|async_job_type_tab|async_job_(due|key|group))\b`).FindString(s.text); bare != "" {
					t.Errorf("%s to %s says %s: %s", name, d.Name, bare, s.text)
				}
			}
		}
	}
}
