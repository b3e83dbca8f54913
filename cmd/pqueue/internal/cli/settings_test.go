package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSettingsComeFromFlagsThenTheEnvironmentThenTheFile(t *testing.T) {
	sh, folder := &shell{T: t}, t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	file := write("pqueue.yaml", `# how we serve
listen: 0.0.0.0:9000
dsn: mysql://shop:s3cret@db/shop
password-file: `+write("password", "a long enough s3cret")+`
egress-allow: [10.1.0.0/16, "*.svc.cluster.local"]
title: shop, production
topics: 40
timeout: 3s
delay-service:
  shop: http://10.1.2.3:8080
  mail: http://10.1.2.4
`)
	t.Setenv("PQUEUE_TITLE", "shop, test")
	t.Setenv("PQUEUE_TOPICS", "50")
	out := sh.want("check-config --topics 60 --config "+file, exitDone)
	for setting, want := range map[string]string{
		"listen": "0.0.0.0:9000 " + file + ":2", "dsn": "(set) " + file + ":3", "egress-allow": "[10.1.0.0/16,*.svc.cluster.local] " + file + ":5",
		"title": "shop, test PQUEUE_TITLE", "topics": "60 --topics", "timeout": "3s " + file + ":8", "api": "true default",
	} {
		if line := strings.Join(strings.Fields(lineOf(out, setting)), " "); line != setting+" "+want {
			t.Errorf("%q, want %q", line, setting+" "+want)
		}
	}
	if line := lineOf(out, "delay-service"); !strings.Contains(line, "shop=http://10.1.2.3:8080") || !strings.Contains(line, "mail=http://10.1.2.4") {
		t.Error(line)
	}
	if strings.Contains(out, "s3cret") {
		t.Error("a secret is shown:", out)
	}

	t.Setenv("PQUEUE_DSN_FILE", write("dsn", "sqlite://jobs.db"))
	out = sh.want("check-config --config "+file, exitDone)
	if line := lineOf(out, "dsn"); !strings.Contains(line, "default") {
		t.Errorf("the file's dsn is stronger than the environment's dsn-file: %q", line)
	}
}

// lineOf is the line of a list that begins with a name.
func lineOf(out, name string) string {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, name+" ") {
			return line
		}
	}
	return ""
}

func TestAllThatIsWrongWithSettingsIsSaidAtOnce(t *testing.T) {
	sh, folder := &shell{T: t}, t.TempDir()
	file := filepath.Join(folder, "pqueue.yaml")
	for _, c := range []struct {
		text, flags string
		says        []string
	}{
		{"consle: false\ntopics: many\nlisten:\nlisten: ':1'\ntitle: [a, b]\n", "", []string{
			`:1: there is no setting "consle"; there are alias-from, api, console, `, ":2: ", `"many"`, ":3: listen has no value; give it one", ":5: it takes one value, and no list",
		}},
		{"topics: 5\ntopics: 6\n", "", []string{":2: topics was set in line 1 already"}},
		{"api: yes please\nkeep-failed: soon\ntrusted-proxy: nowhere\n", "", []string{":1: api is \"yes please\"; it is to be true or false", ":2: \"soon\" is no duration", "--trusted-proxy"}},
		{"output: json\n", "", []string{`there is no setting "output"`}},
		{"- listen\n", "", []string{`write a setting a line, such as "listen: 127.0.0.1:8080"`}},
		{"listen: [\n", "", []string{file, "line 1"}},
		{"listen: :8080\nsecret-file: none\nencryption-file: nowhere\negress-allow: 10.1.0.0/99\n", "", []string{"--password-file", "--secret-file: open none", "--encryption-file: open nowhere", "--egress-allow: ", "10.1.0.0/99"}},
		{"delay-service: {shop: 10.1.2.3}\nalias-from: 10.1.2\n", "", []string{"--alias-from: \"10.1.2\" is no network", "--delay-service: shop=10.1.2.3: write the base"}},
		{"topics: 0\nlisten: 127.0.0.1:99999\nmetrics-listen: nine\ndelay-queue: 'No topic'\n", "", []string{"--topics is 0", "--listen 127.0.0.1:99999: ", "--metrics-listen nine: ", `--delay-queue: "No topic": a topic's name has`}},
		{"topics: -5\n", "", []string{"--topics is -5"}},
		{"topics: 10\ntopics-per-token: 11\n", "", []string{"--topics-per-token is 11; it is to be from 1 to --topics, which is 10"}},
		{"alias-from: 10.0.0.0/8\n", "", []string{"--alias-from is for clients of --delay-queue and --delay-service"}},
		{"delay-service: {shop: 'http://a/?x=1'}\n", "", []string{"--delay-service: shop=http://a/?x=…: each task's own path follows the base"}},
		{"delay-service: {shop: 10.1.2.3}\n", "", []string{"--delay-service: shop=10.1.2.3: write the base as http://host:port"}},
		{"a: &x b\ntitle: *x\ntopics: {}\n", "", []string{":2: title has no value", ":3: topics has no value"}},
		{"title: {a: b}\n", "", []string{":1: it takes one value, and no list"}},
		{"", "--api=false --delivery=false --console=false", []string{"nothing is left to serve"}},
		{"", "--dsn ftp://x", []string{"ftp:// is no database that pqueue knows"}},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		sh.want("check-config --config "+file+" "+c.flags, exitUsage, c.says...)
	}
	sh.want("check-config --config nowhere.yaml", exitUsage, "--config: open nowhere.yaml")
	sh.want("serve --config "+file+" --api=false --delivery=false --console=false", exitUsage, "nothing is left to serve")
}
