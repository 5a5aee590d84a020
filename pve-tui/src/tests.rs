//! The program without a terminal and without a server.

mod login;
mod manners;
mod pilot;
mod progress;
mod pty;
mod screens;
mod world;
