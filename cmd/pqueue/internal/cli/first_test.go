package cli

import (
	"os"
	"testing"
)

// What the guide begins with, in a folder that has nothing in it yet.
func TestTheFirstCommandsWorkOnADatabaseThatIsNotThere(t *testing.T) {
	for name, first := range map[string]string{
		"a user":  "user create ann",
		"a token": "token create --scope admin",
	} {
		for dsn, more := range map[string]string{"its own file": "", "a file that is named": " --dsn sqlite://jobs.db"} {
			t.Run(name+" in "+dsn, func(t *testing.T) {
				t.Chdir(t.TempDir())
				sh := &shell{T: t}
				sh.want(first+more, exitDone)
				if dsn != "its own file" {
					sh.want("schema check"+more, exitDone, "up to date")
				}
			})
		}
	}
	t.Run("schema migrate", func(t *testing.T) {
		t.Chdir(t.TempDir())
		sh := &shell{T: t}
		sh.want("schema migrate --dsn sqlite://jobs.db", exitDone, "up to date")
	})
}

func TestWhoFindsNoTablesOrNoFileIsToldTheCommandThatMakesThem(t *testing.T) {
	t.Chdir(t.TempDir())
	sh := &shell{T: t}
	for _, command := range []string{"check", "job list", "type list", "user list", "token list", "lease list", "audit list"} {
		sh.want(command+" --dsn sqlite://none.db", exitUnreachable, "there is no file none.db", "pqueue serve")
	}
	if _, err := os.Stat("none.db"); err == nil {
		t.Error("a command that only looks has made the file")
	}
	if err := os.WriteFile("empty.db", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "job list", "type list", "user list", "token list", "lease list", "audit list"} {
		sh.want(command+" --dsn sqlite://empty.db", exitOutdated, "pqueue schema migrate")
	}
	for _, text := range []string{"hi", "this is a text, and no database of anything"} {
		if err := os.WriteFile("text.db", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"job list", "serve", "schema migrate"} {
			sh.want(command+" --dsn sqlite://text.db", exitUsage, "text.db is no database of SQLite")
		}
	}
}
