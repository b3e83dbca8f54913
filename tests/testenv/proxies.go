package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
)

// proxies are the programs that applications stand behind. Each variable names the command that starts one, as a list of words in JSON; flags
// come behind them.
var proxies = []struct{ variable, program, name string }{
	{"PQ_TEST_NGINX", "nginx", "nginx"},
	{"PQ_TEST_HAPROXY", "haproxy", "HAProxy"},
}

// addProxies: on other systems than Linux, the tests with them are left out.
func (p *provided) addProxies(ctx context.Context, m manner) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	var errs []error
	for _, one := range proxies {
		remedy := "install the package " + one.program
		command, err := commandOf(ctx, one.program, one.name, 50)
		switch {
		case m.leaveOut && errors.Is(err, exec.ErrNotFound):
			p.leftOut = append(p.leftOut,
				fmt.Sprintf("left out: the tests behind %s (not on the PATH; no apt-get, so no Debian or Ubuntu). To have them, %s", one.name, remedy))
		case err != nil:
			errs = append(errs, fmt.Errorf("no %s for the tests: %w\nTo have it, %s", one.name, err, remedy))
		default:
			text, _ := json.Marshal(command) // strings only
			p.proxies = append(p.proxies, one.variable+"="+string(text))
		}
	}
	return errors.Join(errs...)
}
