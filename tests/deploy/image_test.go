//go:build unix

package deploy

import (
	"bufio"
	"debug/elf"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// nobody is the user of the image.
const nobody = 65532

// The image is the last stage of the Dockerfile. So what its COPY lines bring is all that there is, and the program has to do with that.
func TestTheImageHasTheProgramItsCertificatesAndNothingElse(t *testing.T) {
	stages := stagesOf(t, "Dockerfile")
	image := t.TempDir()
	if err := os.Chmod(image, 0o755); err != nil {
		t.Fatal(err)
	}
	layOut(t, image, t.TempDir(), stages)
	var files []string
	err := filepath.WalkDir(image, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && (!entry.IsDir() || entry.Name() == "tmp") {
			files = append(files, strings.TrimPrefix(name, image))
		}
		return err
	})
	if want := []string{"/etc/ssl/certs/ca-certificates.crt", "/pqueue", "/tmp"}; err != nil || !slices.Equal(files, want) {
		t.Fatalf("the image has %q, want %q: %v", files, want, err)
	}
	if info, err := os.Stat(filepath.Join(image, "tmp")); err != nil || info.Mode() != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("its /tmp is %v: %v", info, err)
	}
	if runtime.GOOS != "linux" {
		return // the program that was built here is for another system than the image
	}
	isStatic(t, filepath.Join(image, "pqueue"))
	out, err := inside(t, image, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "pqueue ") {
		t.Errorf("pqueue version, in the image: %v\n%s", err, out)
	}
	servesInside(t, image)
}

// The images of a release are made of binaries that are there already, and are the same otherwise.
func TestTheImageOfAReleaseIsThatOfTheDockerfile(t *testing.T) {
	built, released := stagesOf(t, "Dockerfile"), stagesOf(t, "release.Dockerfile")
	lines := func(stage []string) (list []string) {
		for _, line := range stage {
			if !strings.HasPrefix(line, "ARG ") {
				list = append(list, strings.Replace(strings.Replace(line, "$TARGETPLATFORM", "", 1), "--from=build /pqueue", "/pqueue", 1))
			}
		}
		return list
	}
	if a, b := lines(built["scratch"]), lines(released["scratch"]); !slices.Equal(a, b) || len(a) < 7 {
		t.Errorf("the image of a release is\n%s\nand that of the Dockerfile is\n%s", strings.Join(b, "\n"), strings.Join(a, "\n"))
	}
}

// stagesOf are the instructions of a Dockerfile, by the image that they begin with, or by their stage's name.
func stagesOf(t *testing.T, name string) map[string][]string {
	t.Helper()
	file, err := os.Open(root + "/cmd/pqueue/deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	parsed, err := parser.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	stages, stage := map[string][]string{}, ""
	for _, n := range parsed.AST.Children {
		if words := strings.Fields(n.Original); strings.EqualFold(n.Value, "FROM") {
			stage = words[len(words)-1]
			stages[stage] = []string{}
		} else {
			stages[stage] = append(stages[stage], n.Original)
		}
	}
	return stages
}

// layOut does what the Dockerfile says: it runs the commands of the stage that builds, in another folder than /, and copies.
func layOut(t *testing.T, image, build string, stages map[string][]string) {
	t.Helper()
	for _, line := range stages["build"] {
		if run, is := strings.CutPrefix(line, "RUN "); is {
			run = regexp.MustCompile(` /(pqueue|empty)`).ReplaceAllString(run, " "+build+"/$1")
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", run)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", run, err, out)
			}
		}
	}
	for _, line := range stages["scratch"] {
		words := strings.Fields(line)
		if words[0] != "COPY" {
			continue
		}
		if len(words) != 4 || words[1] != "--from=build" {
			t.Fatalf("what does this copy? %s", line)
		}
		from, to := filepath.Join(build, words[2]), filepath.Join(image, words[3])
		if _, err := os.Stat(from); err != nil {
			from = words[2] // what is in the image golang, and here
		}
		if strings.HasSuffix(words[3], "/") && !strings.HasSuffix(words[2], "/") {
			to = filepath.Join(to, path.Base(words[2]))
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(words[2], "/") {
			from += "/."
		}
		if out, err := exec.CommandContext(t.Context(), "cp", "-a", "-L", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

func isStatic(t *testing.T, program string) {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	if err != nil || len(libraries) > 0 {
		t.Errorf("it needs %q: %v", libraries, err)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it needs a loader")
		}
	}
}

// inside starts the program with nothing around it but the image. That takes root; others see the program run beside the rest of their system.
func inside(t *testing.T, image string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(image, "pqueue"), args...)
	cmd.Env, cmd.Dir = []string{}, "/"
	if os.Geteuid() == 0 {
		cmd.Path = "/pqueue"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

func servesInside(t *testing.T, image string) {
	t.Helper()
	cmd := inside(t, image, "serve", "--demo", "--listen", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, said := regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/v1/`), ""
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		said += lines.Text() + "\n"
		if at := address.FindStringSubmatch(lines.Text()); at != nil {
			isAlive(t, at[1])
			break
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	for lines.Scan() {
		said += lines.Text() + "\n"
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v, after\n%s", err, said)
	}
}

func isAlive(t *testing.T, address string) {
	t.Helper()
	answer, err := http.Get(address + "/livez")
	if err != nil {
		t.Error(err)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("/livez of the image: %s", answer.Status)
	}
}
