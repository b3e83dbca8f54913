package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const deploy = "../../deploy/"

// The files that say how to deploy pqueue serve are settings, flags and variables that it has.
func TestWhatIsDeployedIsWhatThereIs(t *testing.T) {
	secrets := t.TempDir()
	for name, text := range map[string]string{"dsn": "sqlite://jobs.db", "console-password": "a long enough s3cret", "signing": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw6ZC1kvFfWHo="} {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings := func(t *testing.T, text string) (file string) {
		t.Helper()
		file = filepath.Join(t.TempDir(), "pqueue.yaml")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "/run/secrets", secrets)), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	read := func(t *testing.T, name string) string {
		t.Helper()
		text, err := os.ReadFile(deploy + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	given := settings(t, read(t, "pqueue.yaml"))

	t.Run("pqueue.yaml", func(t *testing.T) {
		sh := &shell{T: t}
		sh.want("check-config --config "+given, exitDone, "0.0.0.0:8080", "0.0.0.0:9090", "10.1.0.0/16,*.svc.cluster.local", secrets+"/signing")
	})

	t.Run("pqueue.service", func(t *testing.T) {
		sh := &shell{T: t}
		unit := read(t, "pqueue.service")
		for _, variable := range regexp.MustCompile(`(?m)^Environment=(\w+)=%d/(.*)$`).FindAllStringSubmatch(unit, -1) {
			if !strings.Contains(unit, "LoadCredential="+variable[2]+":") {
				t.Errorf("nothing loads %s", variable[2])
			}
			t.Setenv(variable[1], filepath.Join(secrets, variable[2]))
		}
		commands := regexp.MustCompile(`(?m)^Exec\w+=/usr/local/bin/pqueue (.*)$`).FindAllStringSubmatch(unit, -1)
		if len(commands) != 2 || commands[1][1] != "serve --config /etc/pqueue/pqueue.yaml" {
			t.Fatalf("%q", commands)
		}
		sh.want(strings.ReplaceAll(commands[0][1], "/etc/pqueue/pqueue.yaml", given), exitDone, "PQUEUE_DSN_FILE", "PQUEUE_PASSWORD_FILE", "PQUEUE_SECRET_FILE")
	})

	t.Run("kubernetes.yaml", func(t *testing.T) {
		sh := &shell{T: t}
		var config struct{ Data map[string]string }
		var deployment struct {
			Spec struct {
				Template struct {
					Spec struct {
						TerminationGracePeriodSeconds float64 `yaml:"terminationGracePeriodSeconds"`
						Containers                    []struct {
							Args  []string
							Ports []map[string]any
						}
					}
				}
			}
		}
		objects := yaml.NewDecoder(strings.NewReader(read(t, "kubernetes.yaml")))
		for _, object := range []any{&config, &deployment} {
			if err := objects.Decode(object); err != nil {
				t.Fatal(err)
			}
		}
		spec := deployment.Spec.Template.Spec
		if ends := leaveFor + endMax + stopMax; spec.TerminationGracePeriodSeconds <= ends.Seconds() {
			t.Errorf("a pod is killed after %v s, and takes up to %v to end", spec.TerminationGracePeriodSeconds, ends)
		}
		if args := strings.Join(spec.Containers[0].Args, " "); args != "serve --config /etc/pqueue/pqueue.yaml" {
			t.Errorf("it runs pqueue %s", args)
		}
		out := sh.want("check-config --config "+settings(t, config.Data["pqueue.yaml"]), exitDone, secrets+"/dsn")
		for _, setting := range []string{"listen", "metrics-listen"} {
			opened := func(port map[string]any) bool {
				return strings.Contains(lineOf(out, setting), fmt.Sprint("0.0.0.0:", port["containerPort"]))
			}
			if !slices.ContainsFunc(spec.Containers[0].Ports, opened) {
				t.Errorf("the container exposes no port for %s: %s", setting, lineOf(out, setting))
			}
		}
		if command := regexp.MustCompile(`(?m)-- /pqueue (token create .*)$`).FindStringSubmatch(read(t, "kubernetes.yaml")); command == nil {
			t.Error("it does not say how to make a token")
		} else {
			tables, _, _ := newTables(t)
			if err := os.WriteFile(filepath.Join(secrets, "of-tables"), []byte(tables.dsn), 0o600); err != nil {
				t.Fatal(err)
			}
			tables.dsn = ""
			tables.want(strings.Replace(command[1], "/run/secrets/dsn", filepath.Join(secrets, "of-tables"), 1), exitDone, "pq_")
		}
	})
}

// What renders and refuses the chart is in tests/deploy. Here: whether the program takes the settings that it has by default, and ends in time.
func TestTheChartsSettingsAreSettingsOfTheProgram(t *testing.T) {
	secrets := t.TempDir()
	for name, text := range map[string]string{"dsn": "sqlite://jobs.db", "console-password": "a long enough s3cret", "signing": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw6ZC1kvFfWHo="} {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(deploy + "helm/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Config map[string]any
		Grace  float64 `yaml:"terminationGracePeriodSeconds"`
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	settings, err := yaml.Marshal(values.Config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pqueue.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(settings), "/run/secrets", secrets)), 0o600); err != nil {
		t.Fatal(err)
	}
	sh := &shell{T: t}
	sh.want("check-config --config "+file, exitDone, "0.0.0.0:8080", "0.0.0.0:9090", secrets+"/dsn", secrets+"/signing", "*.svc.cluster.local")
	if ends := leaveFor + endMax + stopMax; values.Grace <= ends.Seconds() {
		t.Errorf("a pod is killed after %v s, and takes up to %v to end", values.Grace, ends)
	}
}

// The image has the program and nothing else: no zones of a system, unless the program brings them.
func TestTheProgramBringsItsTimeZones(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "github.com/create-info/persistent-queue/cmd/pqueue").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Fields(string(out)), "time/tzdata") {
		t.Error("the program has no time zones of its own, so no schedule with CRON_TZ works in the image")
	}
	dockerfile, err := os.ReadFile(deploy + "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(dockerfile); !strings.Contains(text, "chmod 1777 /empty/tmp") || !strings.Contains(text, "COPY --from=build /empty/ /\n") {
		t.Error("the image has no /tmp, which serve --demo needs")
	}
}
