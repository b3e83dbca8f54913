package main

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestRecipe_TheCommandReadsWhatTestenvItselfUses(t *testing.T) {
	i := installation{command: []string{"loader", "server"}, options: []string{"--basedir=usr"}}
	for d, options := range map[*database][]string{
		&mySQL:      {"--datadir=D", "--port=1", "--socket=S", "--pid-file=P", "--basedir=usr"},
		&postgreSQL: {"loader", "server", "D", "--port=1"},
		&tiDB:       {"loader", "server", "-path=D/store", "-P=1", "-socket=S"},
	} {
		t.Run(d.name, func(t *testing.T) {
			want, err := newRecipe(*d, i, "dir")
			if err != nil {
				t.Fatal(err)
			}
			var got recipe
			if err := json.Unmarshal([]byte(want.String()), &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("read %+v, %v; want %+v", got, err, want)
			}
			places := strings.NewReplacer("{data}", "D", "{port}", "1", "{socket}", "S", "{pid}", "P")
			filled := newCommand(got.Serve, places).Args
			for _, option := range options {
				if !slices.Contains(filled, option) {
					t.Errorf("no %s in %q", option, filled)
				}
			}
			if all := strings.Join(append(filled, newCommand(got.Init, places).Args...), " "); strings.Contains(all, "{") {
				t.Errorf("a place is not filled: %s", all)
			}
		})
	}
}

func TestMariaDB_RemovesTemporaryTablesOfNobodyElse(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "mariadb-install-db"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder) // a machine that has the script
	r, err := newRecipe(mariaDB, installation{command: []string{"server"}}, "dir")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{r.Init, r.Serve} {
		if !slices.Contains(command, "--tmpdir={data}") {
			t.Errorf("works in the machine's temporary folder: %q", command)
		}
	}
}

func TestRun_RefusesWhatIsNoCommand(t *testing.T) {
	for _, arguments := range [][]string{nil, {"--"}, {"-private"}, {"-private", "--"}, {"-leave-out", "--", "true"}, {"-tidb", "-redis", "--", "true"}, {"-nonsense", "--", "true"}} {
		if code := run(arguments); code != 2 {
			t.Errorf("%q: exit code %d", arguments, code)
		}
	}
}

func TestPrivate_APortThatSomebodyHasTakenMeanwhileIsLeftToThem(t *testing.T) {
	var ports []int
	s, err := onFreePort(func(address *net.TCPAddr) (server, error) {
		if ports = append(ports, address.Port); len(ports) < 3 {
			return server{}, errors.New("MySQL ended; its log:\n    | Can't start server: Bind on TCP/IP port: Address already in use")
		}
		return server{version: "9.7"}, nil
	})
	if err != nil || s.version != "9.7" || len(ports) != 3 {
		t.Errorf("%v, %v, ports %v", s.version, err, ports)
	}
	ports = nil
	refusal := errors.New("MySQL ended; its log:\n    | no space left on device")
	if _, err := onFreePort(func(address *net.TCPAddr) (server, error) {
		ports = append(ports, address.Port)
		return server{}, refusal
	}); !errors.Is(err, refusal) || len(ports) != 1 {
		t.Errorf("%v, ports %v", err, ports)
	}
}
