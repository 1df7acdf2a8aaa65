//! Processes that run one of the tests of this program: for what two processes do with one file, and for what a process
//! does once.
//!
//! A child is a test that is ignored, so that it runs only when it is started by name.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// Returns the command that runs the test `name` of the module `module_path!()` in a process of its own.
pub(crate) fn command(module: &str, name: &str) -> Command {
    let module = module.split_once("::").expect("a module of this crate").1;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([&format!("{module}::{name}"), "--exact", "--ignored", "--nocapture"]);
    command
}

/// A child that works in steps: it begins one when it is told to, and says when it has finished it.
pub(crate) struct Steps {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Steps {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Steps { child, stdin, stdout }
    }

    /// Lets the child do its next step, and waits for its end.
    pub(crate) fn step(&mut self) {
        writeln!(self.stdin, "go").unwrap();
        for line in (&mut self.stdout).lines() {
            if line.unwrap().contains("done") {
                return;
            }
        }
        panic!("the child ended: {}", self.child.wait().unwrap());
    }

    /// Waits for the end of the child, whose test must have passed.
    pub(crate) fn finish(self) {
        let Steps { mut child, stdin, stdout } = self;
        drop(stdin);
        stdout.lines().for_each(drop);
        assert!(child.wait().unwrap().success());
    }
}

/// In the child: waits until the next step may begin.
pub(crate) fn begin_step() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// In the child: says that the step is finished.
pub(crate) fn end_step() {
    println!("\ndone");
}
