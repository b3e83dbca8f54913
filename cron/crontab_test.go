package cron

import (
	"strings"
	"testing"
	"time"
)

// A day field that begins with * is not limited, whatever its step. The first cron did it like this; the crons of Debian and ISC, and cronie, still do.
func TestADayFieldThatBeginsWithAStarIsNotLimited(t *testing.T) {
	from := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC) // a Saturday
	for spec, want := range map[string]string{
		"0 0 */2 * 1":  "Mon 7 Dec, Mon 21 Dec, Mon 11 Jan", // odd days that are Mondays
		"0 0 */1 * 1":  "Mon 30 Nov, Mon 7 Dec, Mon 14 Dec",
		"0 0 1-31 * 1": "Sun 29 Nov, Mon 30 Nov, Tue 1 Dec",
		"0 0 13 * */2": "Sun 13 Dec, Sat 13 Feb, Sat 13 Mar", // Sunday, Tuesday, Thursday or Saturday
		"0 0 13 * 1":   "Mon 30 Nov, Mon 7 Dec, Sun 13 Dec",
		"0 0 ? * 1":    "Mon 30 Nov, Mon 7 Dec, Mon 14 Dec",
		"0 0 * * 1":    "Mon 30 Nov, Mon 7 Dec, Mon 14 Dec",
		"0 0 13 * *":   "Sun 13 Dec, Wed 13 Jan, Sat 13 Feb",
		"0 0 */2 * *":  "Sun 29 Nov, Tue 1 Dec, Thu 3 Dec",
		"0 0 *,13 * 1": "Mon 30 Nov, Mon 7 Dec, Mon 14 Dec",
		"0 0 13,* * 1": "Sun 29 Nov, Mon 30 Nov, Tue 1 Dec",
		"0 0 * * */7":  "Sun 29 Nov, Sun 6 Dec, Sun 13 Dec",
		"0 0 1 * 1-7":  "Sun 29 Nov, Mon 30 Nov, Tue 1 Dec",
	} {
		s, err := Parse(spec)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
			continue
		}
		var got []string
		for at := from; len(got) < 3; got = append(got, at.Format("Mon 2 Jan")) {
			at = s.Next(at)
		}
		if want != "" && strings.Join(got, ", ") != want {
			t.Errorf("%s: %s, want %s", spec, strings.Join(got, ", "), want)
		}
	}
}

func TestWhatACrontabDoesNotHaveIsRefusedInOneLineThatNamesIt(t *testing.T) {
	for spec, want := range map[string]string{
		"1, * * * *":                   `"1,": has an empty place`,
		",1 * * * *":                   `",1": has an empty place`,
		"1,,2 * * * *":                 `"1,,2": has an empty place`,
		"0 9 * * MON#1":                `"MON#1": # is not supported`,
		"0 0 L * *":                    `"L": L is not supported`,
		"0 0 LW * *":                   `"LW": L is not supported`,
		"0 0 15W * *":                  `"15W": W is not supported`,
		"0 0 * * 5L":                   `"5L": L is not supported`,
		"H * * * *":                    `"H": H is not supported`,
		"0 0 ~ * *":                    `"~": ~ is not supported`,
		"CRON_TZ=europe/nil 0 0 * * *": `time zone "europe/nil"`,
		"CRON_TZ= 0 0 * * *":           `no time zone`,
	} {
		_, err := Parse(spec)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "option") {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
	for _, spec := range []string{"0 0 * JUL WED", "0 0 * jul-aug wed,FRI", "0 0 1 * *"} {
		if _, err := Parse("0 " + spec[2:]); err != nil {
			t.Error(err)
		}
	}
}
