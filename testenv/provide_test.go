package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestProvide_AServerThatIsNamedAndDoesNotAnswerIsAnErrorAndNotReplaced(t *testing.T) {
	for _, d := range databases {
		t.Setenv(d.variable, strings.ReplaceAll(d.dsn, "{port}", "1"))
		_, err := provide(t.Context(), d, false)
		if err == nil || !strings.Contains(err.Error(), d.variable) {
			t.Errorf("%s: the error is %v", d.name, err)
		}
	}
}

func TestProvide_APrivateServerIsAProgramOfThisMachineWhateverElseThereIs(t *testing.T) {
	d := database{name: "NoSuchDB", variable: "PQ_TEST_NO_SUCH_DSN", remedy: "invent it"}
	d.fromApt = func(context.Context, database) (installation, error) {
		return installation{}, errors.New("not packaged")
	}
	t.Setenv(d.variable, "root@tcp(127.0.0.1:1)/")
	_, err := provide(t.Context(), d, true)
	if err == nil {
		t.Fatal("there is a server")
	}
	said := err.Error()
	if !strings.Contains(said, "no NoSuchDB server on the PATH") || !strings.Contains(said, d.remedy) {
		t.Errorf("it does not say what is missing: %v", err)
	}
	if strings.Contains(said, "Docker") || strings.Contains(said, "127.0.0.1:1") || strings.Contains(said, "set "+d.variable) {
		t.Errorf("it speaks of a way that does not count: %v", err)
	}
}
