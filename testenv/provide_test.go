package main

import (
	"strings"
	"testing"
)

func TestProvide_AServerThatIsNamedAndDoesNotAnswerIsAnErrorAndNotReplaced(t *testing.T) {
	d := databases[1]
	t.Setenv(d.variable, "root@tcp(127.0.0.1:1)/")
	_, err := provide(t.Context(), d)
	if err == nil || !strings.Contains(err.Error(), d.variable) {
		t.Errorf("the error is %v", err)
	}
}
