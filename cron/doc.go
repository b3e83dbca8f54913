// Package cron reads schedules from text: five fields as in a crontab, or a word such as @daily. [Parse] returns a schedule for
// [github.com/create-info/persistent-queue/queue_job.Config.Schedule], and a Runner and Jobs need it for the schedules of
// [github.com/create-info/persistent-queue/queue_job.Jobs.PutSchedule], which stand in a table.
//
//	30 4 * * *            at half past four, each day
//	*/15 8-18 * * MON-FRI every quarter of an hour from 8:00 to 18:45, on working days
//	@hourly, @daily (@midnight), @weekly, @monthly, @yearly (@annually)
//	@every 90s            at each multiple of 90 s since the beginning of 1970
//	CRON_TZ=Europe/Berlin 30 4 * * *
//	CRON_TZ=+08:00 30 4 * * *
//
// The fields are minute (0-59), hour (0-23), day of the month (1-31), month (1-12 or JAN-DEC) and day of the week (0-7
// or SUN-SAT; 0 and 7 are Sunday), each with *, lists (1,2), ranges (1-5) and steps (*/15, 10-40/5). If both day fields
// are limited, a time counts if either fits, like in a crontab; and like there, a field that begins with * is not limited: "0 0 */2 * 1"
// is midnight of the Mondays that are odd days. L, W, # and H, which other programs know, are not supported.
//
// A schedule has a time zone: UTC, unless the text or [ParseIn] names another. Its times are the same on every
// instance, whatever the host's own time zone is. "@every" goes by no zone: "@every 24h" is at midnight UTC. Since its
// times are fixed, no restart delays them.
//
// # Summer time
//
// A schedule that names hours runs once for each of them, as with the cron of Debian and ISC. If the clocks are set
// forward over a time, the schedule runs at the moment of the change: "30 2 * * *" in Berlin runs at 03:00 in that
// night. It runs once then, even if several of its times were skipped. If the clocks are set back and a time comes
// twice, it runs the first time.
//
// A schedule whose hour field begins with * goes by the time that passes. It runs in both of the hours that look alike,
// and does not make up for an hour that was skipped. With "*/15 * * * *", all runs are 15 minutes apart in any night.
//
// # The parser
//
// The fields are read by github.com/netresearch/go-cron, the maintained fork of robfig/cron, which itself has had no
// release since January 2020. The fork needs no other module, has the MIT licence, and turns a text into bit sets once.
// Of the others, github.com/adhocore/gronx reads the text again for each time that it is asked for, and its last two
// mistakes with summer time were corrected in 2026; github.com/hashicorp/cronexpr takes five to seven fields without
// saying which it took. Here the parser is asked in UTC only, which has no summer time; this package itself decides
// what happens in summer time.
package cron
