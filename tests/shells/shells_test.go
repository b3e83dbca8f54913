// Package shells tests pqueue's completion in bash, fish and zsh. "make test-all" installs the shells and runs it. To run it in the
// shells that are installed:
//
//	go test ./tests/shells
package shells

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// scripts print what a shell offers behind the words of $LINE. One that cannot know when that is all waits for $WANT.
var scripts = map[string][]string{
	"bash": {"--norc", "-c", `
source /usr/share/bash-completion/bash_completion
source <(pqueue completion bash)
read -ra COMP_WORDS <<<"$LINE"
[[ $LINE == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_TYPE=63 COMP_KEY=9
__start_pqueue
printf '%s\n' "${COMPREPLY[@]}"`},
	"fish": {"--no-config", "-c", `pqueue completion fish | source; complete -C "$LINE"`},
	// Its completion needs somebody at a terminal, which zpty plays. What the terminal shows by then is printed.
	"zsh": {"-f", "-c", `
zmodload zsh/zpty
zpty -b shell "TERM=dumb zsh -f -i"
zpty -w shell "PROMPT=; unsetopt zle_bracketed_paste 2>/dev/null; autoload -U compinit; compinit -u -D; source <(pqueue completion zsh); stty -echo; print rea''dy"
shown=
until [[ $shown == *ready* ]]; do zpty -r -t shell part && shown+=$part || sleep 0.02; done
zpty -w -n shell "$LINE"$'\t'
shown=
for n in {1..1000}; do
	zpty -r -t shell part && shown+=$part || sleep 0.02
	[[ $shown == *$WANT* ]] && break
done
print -r -- "$shown"
zpty -d shell`},
}

func TestTabOffersCommandsAndWhatTheDatabaseHas(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "pqueue"), "github.com/create-info/persistent-queue/cmd/pqueue")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dsn := "sqlite://" + filepath.ToSlash(filepath.Join(dir, "jobs.db")) + "?mode=rwc"
	environment := append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "PQUEUE_DSN="+dsn, "HOME="+dir)
	prepare(t, filepath.Join(dir, "jobs.db"))
	for shell, script := range scripts {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			program := found(t, shell)
			for line, want := range map[string]string{"pqueue schem": "schema", "pqueue lease y": "yield", "pqueue type pause ": "4711", "pqueue flow get ": "4712", "pqueue job list --ol": "--oldest"} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, program, script...)
				cmd.Env = slices.Concat(environment, []string{"LINE=" + line, "WANT=" + want})
				var says bytes.Buffer
				cmd.Stderr = &says
				offered, err := cmd.Output()
				if err != nil || !strings.Contains(string(offered), want) {
					t.Errorf("%q <Tab>: %v, offers %q, want %s\n%s", line, err, offered, want, says.String())
				}
			}
		})
	}
}

// found is the program of a shell.
func found(t *testing.T, shell string) string {
	t.Helper()
	program, err := exec.LookPath(shell)
	if err == nil && shell == "bash" {
		_, err = os.Stat("/usr/share/bash-completion/bash_completion") // which Cobra's script for bash needs
	}
	switch {
	case err == nil:
		return program
	case os.Getenv("PQ_TEST_ALL") != "":
		t.Fatalf(`%v; "make test-all" installs the shells with apt-get, if root runs it`, err)
	}
	t.Skipf(`left out: %v; "make test-all" installs the shells with apt-get, if root runs it`, err)
	return ""
}

// prepare makes a database in which somebody has paused job type 4711, and a flow is there.
func prepare(t *testing.T, file string) {
	t.Helper()
	db := dbtest.Open(t, "sqlite", "file:"+filepath.ToSlash(file))
	if err := schema.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	jobs, err := queue_job.Open(db)
	if err == nil {
		_, err = jobs.Pause(t.Context(), db, 4711)
	}
	if err == nil {
		f := queue_job.NewFlow("order")
		f.Job("pay", queue_job.AddModelJob{JobType: 4711})
		if _, err = jobs.AddFlow(t.Context(), db, f); err == nil {
			_, err = db.Exec("UPDATE async_job_flow_tab SET id = 4712") // a number that stands nowhere else
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
